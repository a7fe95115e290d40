"""A run as one reads it afterwards: its trials in order, where their time went, and its finals."""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING

from schedlang.database.ranking import Timing, timing_of
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import Rejections, Run, TrialDetails
from schedlang.database.trials import TraceEvents, TrialRow, dataframe_of, trial_rows
from schedlang.errors import SchedlangError
from schedlang.files import as_path, write_text
from schedlang.measurement.clock import Phase

if TYPE_CHECKING:
    import pandas

__all__ = [
    "FINALS",
    "REJECTIONS",
    "TIME_LINE",
    "UNSCHEDULED_LATENCY",
    "Phase",
    "Rejections",
    "RunHistory",
    "TrialDetails",
]

TIME_LINE, REJECTIONS, FINALS, UNSCHEDULED_LATENCY = (
    "time line",
    "rejections",
    "finals",
    "unscheduled",
)
"""Keys of ``RunHistory.lacks``."""


@dataclass(frozen=True)
class RunHistory:
    """What a database holds of one run; ``schedlang.database.history`` reads it.

    Attributes
    ----------
    run: what was called, with its notes and tags.
    name: of the workload.
    records: of the candidates, in the order in which they were measured. Records that the run took
        over from others are among them.
    unscheduled: record of the unscheduled program.
    trials: by the record's id; records that were taken over have none.
    rejections: most frequent first.
    phases: of the run itself, oldest first. Each call of ``tune`` that worked on the run has its
        own; between two calls there is a gap.
    finals: entries of the newest finals of the run, the winner first.
    finished: why it ended; empty while it has not.
    lacks: why something is missing, by what it is: one of the constants above. Files of older
        schemas lack the time line and rejections, as do runs that were imported.
    program: the program before scheduling, as TVM's JSON text; empty where the database has none.
    """

    run: Run
    name: str
    records: Sequence[Record] = field(repr=False)
    unscheduled: Record | None = field(default=None, repr=False)
    trials: Mapping[int, TrialDetails] = field(default_factory=dict, repr=False)
    rejections: Sequence[Rejections] = field(default=(), repr=False)
    phases: Sequence[Phase] = field(default=(), repr=False)
    finals: Sequence[FinalsEntry] = field(default=(), repr=False)
    finished: str = ""
    lacks: Mapping[str, str] = field(default_factory=dict)
    program: str = field(default="", repr=False)

    def timing(self, record: Record) -> Timing:
        """Return the timing of a record: of the finals of this run, else of the search."""
        return timing_of(record, self.finals)

    @property
    def reference(self) -> float:
        """Latency of the unscheduled program in seconds; NaN where it is not known."""
        one = self.unscheduled
        return math.nan if one is None or not one.ok else self.timing(one).latency

    @property
    def reference_run(self) -> int | None:
        """Id of the run that measured the unscheduled program, where it is another one."""
        one = self.unscheduled
        if one is None or one.run_id == self.run.id or self.timing(one).entry is not None:
            return None
        return one.run_id

    def seconds_at(self, moment: float) -> float:
        """Return the wall seconds that the run had used at ``moment`` (since 1970, UTC).

        Gaps between calls of ``tune`` do not count. Without ``phases``: seconds since it began.
        """
        if not self.phases:
            return max(moment - self.run.created, 0.0)
        begins, ends, used = self._busy
        place = bisect_right(begins, moment) - 1
        return 0.0 if place < 0 else used[place] + min(moment, ends[place]) - begins[place]

    @cached_property
    def _busy(self) -> tuple[list[float], list[float], list[float]]:
        """Begin and end of each stretch without a gap, and the seconds used before it."""
        begins: list[float] = []
        ends: list[float] = []
        for phase in sorted(self.phases, key=lambda phase: phase.begin):
            if ends and phase.begin <= ends[-1]:
                ends[-1] = max(ends[-1], phase.end)
            else:
                begins.append(phase.begin)
                ends.append(phase.end)
        used = accumulate(map(sub, ends, begins), initial=0.0)
        return begins, ends, list(used)

    @cached_property
    def rows(self) -> Sequence[TrialRow]:
        """A row for each candidate, in order: when it was measured, by whom, and how fast it is."""
        return trial_rows(self.run.id, self.records, self.trials, self.seconds_at)

    def to_dataframe(self) -> pandas.DataFrame:
        """Return one row for each candidate, in order, as a pandas data frame.

        Its columns are ``number`` (from 1; none for a candidate that was rejected before it ran),
        ``seconds`` (that the run had used when it was measured), ``status``, ``latency`` in
        seconds as the search measured it, ``finals_latency`` of those that were in the finals,
        ``speedup`` of the former over the unscheduled program, ``best`` latency so far in the
        search, ``verified``, ``reused`` (another run measured it), ``worker``, ``build_seconds``,
        ``run_seconds`` and ``verify_seconds``, ``search``, a column ``decision:<site>`` for each
        decision (a tuple where it is of several numbers), ``message``, ``program_key`` and
        ``record``, its id. What is not known is missing, as is the decision of a candidate that has
        none at the site.

        ``MissingExtraError`` where pandas is not installed.
        """
        finals: dict[int | None, float] = {
            one.record_id: one.latency for one in self.finals if one.ok
        }
        return dataframe_of(self.rows, self.reference, finals)

    def to_trace(self, path: str | os.PathLike[str]) -> Path:
        """Write the time line as JSON that https://ui.perfetto.dev and Chrome show.

        It has a row for each worker, one for the run's phases, and a counter of the best latency.
        Times are wall seconds of the run, without gaps between calls of ``tune``.
        ``SchedlangError`` says why where the run has no time line.
        """
        if not self.trials and not self.phases:
            why = self.lacks.get(TIME_LINE, "nothing was measured")
            raise SchedlangError(f"the run of {self.name} has no time line: {why}")
        made = TraceEvents(self.name, self.records, self.trials, self.phases, self.seconds_at)
        said = {"search": self.run.search, "seed": str(self.run.seed), "notes": self.run.notes}
        document = {"traceEvents": made.events(), "displayTimeUnit": "ms", "otherData": said}
        written = as_path(path)
        write_text(written, json.dumps(document, allow_nan=False), "the time line")
        return written
