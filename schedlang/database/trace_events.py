"""A run as events for Perfetto and Chrome's ``about:tracing``.

The format is that of "Trace Event Format": times in microseconds, ``X`` for a span, ``C`` for a
counter, ``M`` for names. Perfetto reserves process and thread 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.database.details import TrialDetails
from schedlang.database.record import Record
from schedlang.measurement.phase import Phase, worker_name

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
