"""Run searches and compare them: curves, and finals between all runs."""

from __future__ import annotations

import itertools
import math
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from _contest import FINALISTS

import schedlang as sl
from schedlang.errors import SchedlangError
from schedlang.search import MakeStrategy
from schedlang.targets import LocalCPU
from schedlang.tuning import BATCH
from schedlang.tvm.program import structural_key

# Building and verifying dozens of finalists takes most of this time.
FINALS_SECONDS = 60.0

Point = tuple[int, float, float]


@dataclass(frozen=True)
class Trial:
    """One measured candidate of a search.

    Attributes
    ----------
    seconds: wall time from the start of the run until it was measured.
    latency: in seconds, from the search's own measurer; ``None`` if the candidate failed.
    status: how its measurement ended.
    program: returns its module.
    wrong: for wrong results, what differs and the trace as JSON text; otherwise ``None``.
    """

    seconds: float
    latency: float | None
    status: str
    program: Callable[[], Any] = field(repr=False, compare=False)
    wrong: tuple[str, str] | None = None


@dataclass(frozen=True)
class Run:
    """A tuning run.

    Attributes
    ----------
    trials: what was measured, in order.
    seconds: wall time of all of it, start-up and finals too.
    winner: number of the trial that it returns; ``None`` takes the fastest.
    split: wall seconds by part, as the tuner reports them.
    error: the exception that ended it early; empty if it ran to its end.
    """

    trials: Sequence[Trial]
    seconds: float
    winner: int | None = None
    split: Mapping[str, float] = field(default_factory=dict)
    error: str = ""

    def curve(self) -> list[Point]:
        """Return (trial, seconds, best latency) at each improvement, and at the end."""
        points: list[Point] = []
        best = math.inf
        for number, trial in enumerate(self.trials, 1):
            if trial.latency is not None and trial.latency < best:
                best = trial.latency
                points.append((number, trial.seconds, best))
        if points:
            points.append((len(self.trials), self.seconds, best))
        return points

    def seconds_after(self, count: int) -> float:
        """Return the wall time until ``count`` trials were measured, or of the whole run."""
        return self.seconds if count >= len(self.trials) else self.trials[count - 1].seconds

    def fastest(self, count: int) -> list[Any]:
        """Return the programs of the best of its first ``count`` trials, by its own latencies."""
        numbers = [n for n, one in enumerate(self.trials[:count]) if one.latency is not None]
        numbers.sort(key=lambda n: (n != self.winner, self.trials[n].latency))
        return [self.trials[number].program() for number in numbers[:FINALISTS]]

    def failures(self) -> Counter[str]:
        """Return the number of failed candidates by status."""
        return Counter(trial.status for trial in self.trials if trial.latency is None)


def tune_schedlang(
    workload: sl.Workload,
    search: str | MakeStrategy,
    trials: int,
    seed: int,
    batch: int | None = None,
) -> Run:
    """Run ``tune`` with that search, and all its defaults except ``batch``.

    An exception of the search is recorded as the run's ``error``; the run then has no trials.
    """
    started = time.time()
    try:
        result = sl.tune(
            workload, search=search, trials=trials, seed=seed, batch=batch or BATCH, progress=False
        )
    except Exception as error:
        traceback.print_exc()
        return Run([], time.time() - started, error=f"{type(error).__name__}: {error}")
    winner = None
    try:
        winner = [record.id for record in result.records].index(result.best.record.id)
    except SchedlangError:
        pass  # nothing works; the failures say why
    return Run(
        [_trial(workload, record, started) for record in result.records],
        result.seconds,
        winner,
        split=result.time_split,
        error="" if len(result.records) >= trials else result.finished,
    )


def _trial(workload: sl.Workload, record: sl.Record, started: float) -> Trial:
    return Trial(
        record.created - started,
        record.latency if record.ok else None,
        str(record.status),
        lambda: sl.Trace.from_json(record.trace_json, workload).replay().mod,
        (record.message, record.trace_json) if record.status is sl.Status.WRONG_RESULT else None,
    )


@dataclass(frozen=True)
class Standing:
    """Results of the finals of one workload and seed, by entry.

    Attributes
    ----------
    latencies: in seconds, by entry; entries without a program that works are left out.
    failures: number of finalists that failed, by entry and status.
    """

    latencies: dict[Any, float]
    failures: dict[Any, Counter[str]]


def hold_finals(
    workload: sl.Workload, target: sl.Target, entries: Mapping[Any, Sequence[Any]]
) -> Standing:
    """Verify the programs of all entries, and time them alternately.

    A program that several entries share is timed once.
    """
    numbers: dict[str, int] = {}
    modules: list[Any] = []
    members: dict[Any, list[int]] = {}
    for entry, programs in entries.items():
        for module in programs:
            number = numbers.setdefault(structural_key(module), len(modules))
            if number == len(modules):
                modules.append(module)
            members.setdefault(entry, []).append(number)
    standing = Standing({}, {})
    if not modules:
        return standing
    with LocalCPU(workload, target) as measurer:
        candidates = list(itertools.starmap(sl.Candidate, enumerate(modules)))
        found = measurer.remeasure(candidates, budget_seconds=FINALS_SECONDS)
    for entry, own in members.items():
        working = [found[number].latency for number in own if found[number].ok]
        failed = Counter(str(found[number].status) for number in own if not found[number].ok)
        if working:
            standing.latencies[entry] = min(working)
        if failed:
            standing.failures[entry] = failed
    return standing
