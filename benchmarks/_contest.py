"""Compare spaces by the best of a number of random draws; one measurer times them alternately."""

from __future__ import annotations

import itertools
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import schedlang as sl
from schedlang.measurement.contest import there_and_back
from schedlang.search import Random
from schedlang.targets import LocalCPU

# MetaSchedule's appendix A.2, and CAP of TVM's test suite.
WORKLOADS = tuple(name for name in sl.workloads.names() if name.isupper())
BATCH = 16
FINALISTS = 3
FINALS_SECONDS = 10.0

Draw = Callable[[int], list[Any]]


def draw_from(space: sl.Space, workload: sl.Workload, seed: int) -> Draw:
    """Draw different programs at random from a space; fewer than asked for if it is small."""
    search = Random(space, workload, seed)
    return lambda count: [proposal.schedule.mod for proposal in search.ask(count)]


@dataclass(eq=False)
class Contestant:
    """One space in a comparison: where its programs come from, and their measurements.

    Attributes
    ----------
    draw: returns the given number of new programs.
    measured: latency in seconds and program of every candidate that works.
    trials: candidates measured.
    failures: number of failed candidates by status.
    draw_seconds, measure_seconds: wall time.
    """

    draw: Draw
    measured: list[tuple[float, Any]] = field(default_factory=list)
    trials: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    draw_seconds: float = 0.0
    measure_seconds: float = 0.0

    def take_turn(self, measurer: LocalCPU, count: int, ids: Iterator[int]) -> None:
        """Draw and measure ``count`` programs; its own best latency decides which are too slow."""
        start = time.perf_counter()
        modules = self.draw(count)
        drawn = time.perf_counter()
        by_id = {next(ids): module for module in modules}
        measurer.best_so_far = min((latency for latency, _ in self.measured), default=None)
        for measurement in measurer.measure([sl.Candidate(*item) for item in by_id.items()]):
            if measurement.ok:
                self.measured.append((measurement.latency, by_id[measurement.id]))
            else:
                self.failures[str(measurement.status)] += 1
        self.trials += len(modules)
        self.draw_seconds += drawn - start
        self.measure_seconds += time.perf_counter() - drawn

    def fastest(self) -> list[Any]:
        """The programs that go to the finals."""
        ranked = sorted(self.measured, key=lambda entry: entry[0])
        return [module for _, module in ranked[:FINALISTS]]


@dataclass(frozen=True)
class Winner:
    """A contestant's best program, and its latency in seconds in the finals."""

    latency: float
    module: Any = field(repr=False)


def compete(
    measurer: LocalCPU, contestants: Mapping[str, Contestant], trials: int
) -> dict[str, Winner]:
    """Measure ``trials`` programs of each, alternating by batch, and run the finals.

    A contestant has no winner if all its programs fail.
    """
    ids = itertools.count()
    for turn, first in enumerate(range(0, trials, BATCH)):
        for contestant in there_and_back(contestants.values(), turn):
            contestant.take_turn(measurer, min(BATCH, trials - first), ids)
    return hold_finals(measurer, contestants)


def hold_finals(measurer: LocalCPU, contestants: Mapping[str, Contestant]) -> dict[str, Winner]:
    """Time the fastest of all contestants alternately, so that noise decides less."""
    entries = [(name, module) for name, one in contestants.items() for module in one.fastest()]
    candidates = [sl.Candidate(number, module) for number, (_, module) in enumerate(entries)]
    winners: dict[str, Winner] = {}
    if not candidates:
        return winners
    measurements = measurer.remeasure(candidates, budget_seconds=FINALS_SECONDS)
    for (name, module), measurement in zip(entries, measurements, strict=True):
        if not measurement.ok:
            contestants[name].failures[str(measurement.status)] += 1
        elif name not in winners or measurement.latency < winners[name].latency:
            winners[name] = Winner(measurement.latency, module)
    return winners


def median(values: Iterable[float | None]) -> float | None:
    """Return the median of the values that are not None; None if there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def ratio(one: float | None, other: float | None) -> float | None:
    """Return ``one`` over ``other``; None if either is None."""
    return None if one is None or other is None else one / other


def summarise(ratios: Sequence[float | None]) -> tuple[float | None, float | None]:
    """Return geometric mean and minimum of the ratios that are not None; None if there are none."""
    known = [value for value in ratios if value is not None]
    return (statistics.geometric_mean(known), min(known)) if known else (None, None)


def show(value: float | None, width: int, digits: int = 2, scale: float = 1.0) -> str:
    """A number for a table, ``-`` where it is missing."""
    return f"{'-':>{width}}" if value is None else f"{value * scale:{width}.{digits}f}"
