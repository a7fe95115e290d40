"""What a task scheduler knows of a task, and the latencies of tasks and networks.

Some latencies are not known yet; they are estimated from those that are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

GAIN = 0.01
"""Fraction by which a latency must fall to count as a gain: smaller differences are noise."""


@dataclass(frozen=True)
class TaskProgress:
    """A task and the history of its search.

    A task gets trials in slices. A slice that measured nothing changes nothing here, so whoever
    runs the slices has to set ``finished`` then.

    Attributes
    ----------
    weights: number of calls in each network.
    flops: arithmetic operations of one call; 0 where it computes nothing.
    kin: the same text for similar tasks, which should reach similar rates; empty for none.
    trials: number of trials so far.
    latencies: (trials so far, best latency in seconds) after each slice, in order. NaN or infinity
        where no candidate had succeeded yet.
    default: latency in seconds without tuning, an upper bound of what the task needs: that of the
        unscheduled program; NaN if unknown.
    most: maximum number of trials; ``None`` for no limit.
    finished: whether its search has nothing left to propose.
    """

    weights: tuple[float, ...]
    flops: float = 0.0
    kin: str = ""
    trials: int = 0
    latencies: Sequence[tuple[int, float]] = ()
    default: float = math.nan
    most: int | None = None
    finished: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", tuple(self.weights))
        object.__setattr__(self, "latencies", tuple(self.latencies))
        if not self.weights:
            raise ValueError("weights=(); give the number of calls in each network")
        for weight in self.weights:
            if not 0.0 <= weight < math.inf:
                raise ValueError(f"weights={self.weights}: {weight} is not a number of calls")
        if not 0.0 <= self.flops < math.inf:
            raise ValueError(f"flops={self.flops}; give a number of operations, 0 or more")
        before = 0
        for trials, latency in self.latencies:
            if not before <= trials <= self.trials:
                raise ValueError(
                    f"latencies: {trials} trials after {before}, of trials={self.trials}; the "
                    "counts do not fall and end at trials"
                )
            before = trials
            _check_latency("latencies", latency)
        _check_latency("default", self.default)

    @cached_property
    def history(self) -> tuple[tuple[int, float], ...]:
        """(trials, lowest latency known by then), from 0 trials on; NaN where none is known."""
        lowest = self.default if math.isfinite(self.default) else math.nan
        points = [(0, lowest)]
        for trials, latency in self.latencies:
            if math.isfinite(latency):
                lowest = latency if math.isnan(lowest) else min(lowest, latency)
            points.append((trials, lowest))
        return tuple(points)

    @cached_property
    def latency(self) -> float:
        """The lowest latency known, in seconds; NaN if none is."""
        return self.history[-1][1]

    @cached_property
    def known(self) -> bool:
        """Whether any latency is known."""
        return not math.isnan(self.latency)

    @property
    def open(self) -> bool:
        """Whether it can take more trials."""
        return not self.finished and (self.most is None or self.trials < self.most)

    @cached_property
    def last_gain(self) -> int:
        """Number of slices it had by the last gain of more than ``GAIN``; 0 without a gain.

        Many small gains that together exceed ``GAIN`` count as one.
        """
        slices, reached = 0, self.history[0][1]
        for number, (_, latency) in enumerate(self.history):
            if latency < reached * (1.0 - GAIN) or (math.isnan(reached) > math.isnan(latency)):
                slices, reached = number, latency
        return slices

    @property
    def trials_without_gain(self) -> int:
        """Number of trials since the last gain of more than ``GAIN``."""
        return self.trials - self.history[self.last_gain][0]


def _check_latency(name: str, latency: float) -> None:
    if latency < 0.0:
        raise ValueError(f"{name}: a latency of {latency} seconds; give 0 or more, NaN if unknown")


# -- Latencies of tasks and networks while some are unknown ---------------------------------------


def estimated_latencies(progress: Sequence[TaskProgress]) -> list[float]:
    """Return the latency of each task in seconds, estimated where it is unknown.

    An unknown one is computed from the lowest rate (operations per second) of the tasks of its kin,
    or of all tasks where its kin has none. A task without operations is as slow as the median task.
    Without any known latency, the rate is one operation a second and the median one second.
    """
    rates = [(task.kin, task.flops / task.latency) for task in progress if _has_rate(task)]
    usual = median([task.latency for task in progress if task.known] or [1.0])
    slowest = min([rate for _, rate in rates], default=1.0)
    return [
        task.latency
        if task.known
        else task.flops
        / min([rate for kin, rate in rates if kin == task.kin and kin], default=slowest)
        or usual
        for task in progress
    ]


def _has_rate(task: TaskProgress) -> bool:
    return task.known and task.flops > 0.0 and task.latency > 0.0


def best_rates(progress: Sequence[TaskProgress]) -> dict[str, float]:
    """Return the highest rate, in operations per second, of each kin that has one."""
    rates: dict[str, float] = {}
    for task in progress:
        if task.kin and _has_rate(task):
            rates[task.kin] = max(rates.get(task.kin, 0.0), task.flops / task.latency)
    return rates


def total(progress: Sequence[TaskProgress], latencies: Sequence[float]) -> tuple[float, ...]:
    """Return the latency of each network: the weighted sum over its tasks."""
    networks = range(len(progress[0].weights)) if progress else range(0)
    pairs = list(zip(progress, latencies, strict=True))
    return tuple(
        math.fsum(
            task.weights[network] * latency for task, latency in pairs if task.weights[network]
        )
        for network in networks
    )


def network_latencies(progress: Sequence[TaskProgress]) -> tuple[float, ...]:
    """Return the latency of each network in seconds; NaN where one of its tasks is unknown."""
    return total(progress, [task.latency for task in progress])
