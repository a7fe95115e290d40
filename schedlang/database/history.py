"""A run as one reads it afterwards: its trials in order, where their time went, and its finals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from schedlang.database.finals import FinalsEntry
from schedlang.database.record import Record
from schedlang.database.run import Run

TIME_LINE, REJECTIONS, FINALS, UNSCHEDULED_LATENCY = (
    "time line",
    "rejections",
    "finals",
    "unscheduled",
)
"""Keys of ``RunHistory.lacks``."""


class Phase(NamedTuple):
    """A span of wall time.

    ``activity`` is ``"build"``, ``"run"`` or ``"verify"`` of a trial, and ``"start"`` (workers
    start, the unscheduled program is measured), ``"search"`` or ``"finals"`` of a run. ``begin``
    and ``end`` are in seconds since 1970 (UTC).
    """

    activity: str
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class TrialDetails:
    """Where and when one candidate was measured.

    Attributes
    ----------
    record_id: its record.
    worker: number of the worker that measured it, from 0.
    phases: what the worker did for it, oldest first; a candidate that failed has the phases that it
        reached. Phases of two workers overlap, those of one do not.
    """

    record_id: int
    worker: int
    phases: tuple[Phase, ...]


@dataclass(frozen=True, slots=True)
class Rejections:
    """Traces of one run that were rejected for one reason at one place.

    Attributes
    ----------
    module: the module's name; empty where it is not known.
    instruction: the instruction or the site of a decision; empty where it is not known.
    block: the block of the program; empty where it is not known.
    reason: word that ``TuneResult.rejected`` counts by: ``"threads"``, ``"decision"``,
        ``"duplicate"``, a status.
    count: number of traces.
    message: one of their messages.
    """

    module: str
    instruction: str
    block: str
    reason: str
    count: int
    message: str = ""


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
    lacks: why something is missing, by what it is: one of the constants above. Files of older
        schemas lack the time line and rejections, as do runs that were imported.
    """

    run: Run
    name: str
    records: Sequence[Record]
    unscheduled: Record | None = None
    trials: Mapping[int, TrialDetails] = field(default_factory=dict)
    rejections: Sequence[Rejections] = ()
    phases: Sequence[Phase] = ()
    finals: Sequence[FinalsEntry] = ()
    lacks: Mapping[str, str] = field(default_factory=dict)

    def seconds_at(self, moment: float) -> float:
        """Return the wall seconds that the run had used at ``moment`` (since 1970, UTC).

        Gaps between calls of ``tune`` do not count. Without ``phases``: seconds since it began.
        """
        if not self.phases:
            return max(moment - self.run.created, 0.0)
        used, reached = 0.0, -float("inf")
        for phase in sorted(self.phases, key=lambda phase: phase.begin):
            begin, end = max(phase.begin, reached), min(phase.end, moment)
            used += max(end - begin, 0.0)
            reached = max(reached, phase.end)
        return used
