"""The trials of a run: as rows, as a data frame, and as events for Perfetto."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from schedlang.database.record import Record
from schedlang.database.run import TrialDetails
from schedlang.errors import require
from schedlang.interpreters.document import stored_decisions
from schedlang.measurement import Status
from schedlang.measurement.clock import Phase, worker_name
from schedlang.measurement.finals import median_interval

if TYPE_CHECKING:
    import pandas


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
