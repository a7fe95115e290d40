"""A run as one reads it afterwards: its trials in order, where their time went, and its finals."""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from operator import sub
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.database.ranking import Timing, timing_of
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import Rejections, Run, TrialDetails
from schedlang.errors import SchedlangError, require
from schedlang.files import as_path, write_text
from schedlang.interpreters.document import stored_decisions
from schedlang.measurement import Status
from schedlang.measurement.clock import Phase, worker_name
from schedlang.measurement.finals import median_interval

if TYPE_CHECKING:
    import pandas

__all__ = [
    "FINALS",
    "Phase",
    "REJECTIONS",
    "Rejections",
    "RunHistory",
    "TIME_LINE",
    "TrialDetails",
    "UNSCHEDULED_LATENCY",
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


# -- The trials of a run: as rows, as a data frame, and as events for Perfetto --------------------


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A candidate of a run.

    Attributes
    ----------
    number: of the trial, from 1; None for a candidate that was rejected before it ran.
    seconds: wall time that the run had used when its measurement ended.
    record: its record; latency: median of it in seconds, None where it has none.
    reused: whether another run measured it.
    worker: number of the worker that measured it; None where it is not known.
    build, run, verify: wall seconds of its phases; None where they are not known.
    """

    number: int | None
    seconds: float
    record: Record
    latency: float | None
    reused: bool
    worker: int | None = None
    build: float | None = None
    run: float | None = None
    verify: float | None = None

    @property
    def name(self) -> str:
        """What it is called: ``trial 12``."""
        return "rejected candidate" if self.number is None else f"trial {self.number}"


def trial_rows(
    run_id: int | None,
    records: Sequence[Record],
    trials: Mapping[int, TrialDetails],
    seconds_at: Callable[[float], float],
) -> list[TrialRow]:
    """Return a row for each record of a run, in its order; see ``RunHistory.rows``."""
    rows = []
    ran = 0
    reached = 0.0
    for record in records:
        number = None
        if record.status is not Status.REJECTED:
            ran += 1
            number = ran
        # A record that was taken over is older than the run.
        reused = record.run_id != run_id
        seconds = reached if reused else seconds_at(record.created)
        details = None if record.id is None else trials.get(record.id)
        parts: dict[str, float] = {}
        if details is not None:
            for phase in details.phases:
                parts[phase.activity] = parts.get(phase.activity, 0.0) + (phase.end - phase.begin)
            if details.phases:
                seconds = seconds_at(details.phases[-1].end)
        reached = max(reached, seconds)
        rows.append(
            TrialRow(
                number,
                seconds,
                record,
                record.latency if record.ok else None,
                reused,
                None if details is None else details.worker,
                parts.get("build"),
                parts.get("run"),
                parts.get("verify"),
            )
        )
    return rows


@dataclass(frozen=True, slots=True)
class TrialGain:
    """A trial that was faster than all before it.

    Attributes
    ----------
    row: the trial.
    latency: its median latency in seconds; low, high: confidence interval of it.
    """

    row: TrialRow
    latency: float
    low: float
    high: float


def gains(rows: Sequence[TrialRow]) -> list[TrialGain]:
    """Return the trials at which the best latency fell, in order."""
    found: list[TrialGain] = []
    for row in rows:
        if row.latency is not None and (not found or row.latency < found[-1].latency):
            interval = median_interval(row.record.samples)
            found.append(TrialGain(row, row.latency, interval.low, interval.high))
    return found


# -- The trials as a data frame -------------------------------------------------------------------

_ACTIVITIES = ("build", "run", "verify")
# Whole numbers that some rows lack.
_NULLABLE = ("number", "worker")


def dataframe_of(
    rows: Sequence[TrialRow], unscheduled: float, finals: Mapping[int | None, float]
) -> pandas.DataFrame:
    """Return one row for each candidate of a run; see ``RunHistory.to_dataframe``.

    ``unscheduled`` is the latency of that program in seconds, NaN where it is not known; ``finals``
    are latencies in the finals, by the record's id.
    """
    require("pandas", "to_dataframe", "dataframe")
    import pandas

    records = [row.record for row in rows]
    decisions = _decisions(records)
    kinds = {name: _kind_of(values) for name, values in decisions.items()}
    frame = pandas.DataFrame(
        {
            **_measured(rows, unscheduled, finals),
            # As objects first: a column of numbers with gaps would become one of floats.
            **{name: pandas.Series(values, dtype=object) for name, values in decisions.items()},
            "message": [record.message for record in records],
            "program_key": [record.program_key for record in records],
            "record": [record.id for record in records],
        }
    )
    return frame.astype({**dict.fromkeys(_NULLABLE, "Int64"), **kinds})


def _measured(
    rows: Sequence[TrialRow], unscheduled: float, finals: Mapping[int | None, float]
) -> dict[str, list[Any]]:
    """Return the columns of what was measured; NaN where a latency or a time is not known."""
    latencies = [math.nan if row.latency is None else row.latency for row in rows]
    return {
        "number": [row.number for row in rows],
        "seconds": list(accumulate((row.seconds for row in rows), max)),
        "status": [str(row.record.status) for row in rows],
        "latency": latencies,
        "finals_latency": [finals.get(row.record.id, math.nan) for row in rows],
        "speedup": [unscheduled / latency for latency in latencies],
        "best": list(accumulate(latencies, _lower)),
        "verified": [row.record.verified for row in rows],
        "reused": [row.reused for row in rows],
        "worker": [row.worker for row in rows],
        **{f"{name}_seconds": [_spent(row, name) for row in rows] for name in _ACTIVITIES},
        "search": [row.record.search for row in rows],
    }


def _lower(best: float, latency: float) -> float:
    """Return the lower of two latencies; a NaN only where both are."""
    return latency if math.isnan(best) or latency < best else best


def _spent(row: TrialRow, activity: str) -> float:
    seconds: float | None = getattr(row, activity)
    return math.nan if row.worker is None else seconds or 0.0


def _decisions(records: Sequence[Record]) -> dict[str, list[Any]]:
    """Return a column for each site; None where a candidate has no decision there."""
    columns: dict[str, list[Any]] = {}
    for place, record in enumerate(records):
        for site, value in stored_decisions(record.trace_json).items():
            if site not in columns:
                columns[site] = [None] * len(records)
            columns[site][place] = value
    return {f"decision:{site}": values for site, values in columns.items()}


def _kind_of(values: list[Any]) -> str:
    """Return the type of a column: whole numbers, of which some may be missing, or anything."""
    return "Int64" if all(one is None or type(one) is int for one in values) else "object"


# -- Events for Perfetto and Chrome's about:tracing -----------------------------------------------

_RUN, _WORKERS = 1, 2
# A thread with the number of its process is shown as the process's main thread, before the others.
_FIRST_THREAD = 10
_MICROSECONDS = 1e6


@dataclass(frozen=True)
class TraceEvents:
    """The events of a run.

    Parameters
    ----------
    name: of the workload.
    records: of the candidates, in order.
    trials: where and when each was measured, by the record's id.
    phases: of the run itself.
    seconds_at: tells how many seconds the run had used at a moment.
    """

    name: str
    records: Sequence[Record]
    trials: Mapping[int, TrialDetails]
    phases: Sequence[Phase]
    seconds_at: Callable[[float], float]

    def events(self) -> list[dict[str, Any]]:
        """Return all events: names, spans, and the best latency so far."""
        return [*self._names(), *self._spans(), *self._best()]

    def _names(self) -> Iterator[dict[str, Any]]:
        yield _name(_RUN, _FIRST_THREAD, "process_name", f"{self.name}: the run")
        yield _name(_RUN, _FIRST_THREAD, "thread_name", "phases")
        if self.trials:
            yield _name(_WORKERS, _FIRST_THREAD, "process_name", f"{self.name}: workers")
        workers = {
            trial.worker_of(phase) for trial in self.trials.values() for phase in trial.phases
        }
        for worker in sorted(workers):
            yield _name(_WORKERS, _FIRST_THREAD + worker, "thread_name", worker_name(worker))

    def _spans(self) -> Iterator[dict[str, Any]]:
        for phase in self.phases:
            yield {**self._span(phase), "cat": "run", "pid": _RUN, "tid": _FIRST_THREAD}
        for number, record in enumerate(self.records, start=1):
            trial = None if record.id is None else self.trials.get(record.id)
            for phase in () if trial is None else trial.phases:
                assert trial is not None
                thread = _FIRST_THREAD + trial.worker_of(phase)
                place = {"cat": "trial", "pid": _WORKERS, "tid": thread}
                yield {**self._span(phase), **place, "args": _said(record, number)}

    def _span(self, phase: Phase) -> dict[str, Any]:
        begin, end = self._time(phase.begin), self._time(phase.end)
        return {"ph": "X", "name": phase.activity, "ts": begin, "dur": end - begin}

    def _best(self) -> Iterator[dict[str, Any]]:
        best, reached = math.inf, 0.0
        for record in self.records:
            trial = None if record.id is None else self.trials.get(record.id)
            if trial is not None and trial.phases:
                reached = max(reached, self._time(trial.phases[-1].end))
            if record.ok and record.latency < best:
                best = record.latency
                counter = {"ph": "C", "name": "best latency", "pid": _RUN, "tid": _FIRST_THREAD}
                yield {**counter, "ts": reached, "args": {"us": best * _MICROSECONDS}}

    def _time(self, moment: float) -> float:
        return self.seconds_at(moment) * _MICROSECONDS


def _name(process: int, thread: int, kind: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": process, "tid": thread, "args": {"name": name}}


def _said(record: Record, number: int) -> dict[str, Any]:
    said: dict[str, Any] = {"candidate": number, "status": str(record.status), "record": record.id}
    if record.ok:
        said["latency_us"] = record.latency * _MICROSECONDS
    return said | ({"message": record.message} if record.message else {})
