"""What a task scheduler minimizes: the cost of the latencies of networks."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from schedlang.errors import SchedlangError, users_code
from schedlang.search.tasks.progress import (
    TaskProgress,
    estimated_latencies,
    network_latencies,
    total,
)

STEP = 1e-3
"""Step of the central difference, as a fraction of a latency."""


class ObjectiveError(SchedlangError):
    """An objective gave no usable number."""


class Objective(ABC):
    """A cost of the networks' latencies (Ansor, Table 2).

    Attributes
    ----------
    name: a short name.
    """

    name: str

    @abstractmethod
    def cost(self, progress: Sequence[TaskProgress]) -> float:
        """Return what is minimized; NaN while the latency of a network is unknown."""

    @abstractmethod
    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        """Return the derivative of the cost by each task's latency.

        0 where a lower latency of the task is worth nothing; such a task gets no trials.
        """

    @property
    def settings(self) -> Mapping[str, object]:
        """What tells it from another objective of the same name."""
        return {}


class TotalLatency(Objective):
    """The sum of the networks' latencies, in seconds (Ansor, Table 2, f1).

    Parameters
    ----------
    weights: how often each network runs; its latency counts as often. By default once.
    """

    name = "latency"

    def __init__(self, weights: Sequence[float] | None = None) -> None:
        self.weights = None if weights is None else tuple(weights)

    def cost(self, progress: Sequence[TaskProgress]) -> float:
        return self._weighted(network_latencies(progress))

    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        return [self._weighted(task.weights) for task in progress]

    def _weighted(self, values: Sequence[float]) -> float:
        if self.weights is None:
            return float(sum(values))
        # A network that never runs counts nothing, also where its latency is unknown.
        pairs = zip(values, self.weights, strict=True)
        return math.fsum(value * weight for value, weight in pairs if weight)

    @property
    def settings(self) -> Mapping[str, object]:
        return {} if self.weights is None else {"weights": self.weights}


class Requirements(Objective):
    """The sum of max(latency, limit) over the networks, in seconds (Ansor, Table 2, f2).

    Tasks get no trials once all their networks have met their limits. A network with a task of
    unknown latency has not met its limit.

    Parameters
    ----------
    limits: the latency that suffices, in seconds, for each network.
    """

    name = "requirements"

    def __init__(self, limits: Sequence[float]) -> None:
        self.limits = tuple(float(limit) for limit in limits)
        for limit in self.limits:
            if not limit > 0.0:
                raise ValueError(f"limits={self.limits}: {limit} is not a latency in seconds")

    def cost(self, progress: Sequence[TaskProgress]) -> float:
        latencies = network_latencies(progress)
        if any(map(math.isnan, latencies)):
            return math.nan
        return sum(map(max, latencies, self.limits))

    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        pairs = zip(network_latencies(progress), self.limits, strict=True)
        missed = [not latency <= limit for latency, limit in pairs]
        return [
            math.fsum(weight for weight, miss in zip(task.weights, missed, strict=True) if miss)
            for task in progress
        ]

    @property
    def settings(self) -> Mapping[str, object]:
        return {"limits": self.limits}


class Speedup(Objective):
    """The negative geometric mean of the networks' speed-ups (Ansor, Table 2, f3).

    The reference of a network is its latency without tuning. For a task whose default latency is
    unknown, the first known one takes its place.
    """

    name = "speedup"

    def cost(self, progress: Sequence[TaskProgress]) -> float:
        references = total(progress, [_first_known(task) for task in progress])
        ratios = [
            reference / latency if latency else math.nan
            for reference, latency in zip(references, network_latencies(progress), strict=True)
        ]
        return -(math.prod(ratios) ** (1.0 / len(ratios))) if ratios else math.nan

    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        # The derivative by a task's latency without its factor, the mean itself, which is the same
        # for all tasks: so the references do not matter.
        latencies = total(progress, estimated_latencies(progress))
        return [
            math.fsum(
                weight / latency
                for weight, latency in zip(task.weights, latencies, strict=True)
                if latency
            )
            / len(latencies)
            for task in progress
        ]


def _first_known(task: TaskProgress) -> float:
    return next((latency for _, latency in task.history if not math.isnan(latency)), math.nan)


class UserObjective(Objective):
    """A function of the networks' latencies (Ansor, 6.1: users may give their own).

    The function is called with a tuple of latencies in seconds, one for each network, and returns
    the cost, which is minimized. Latencies of tasks that are still unknown are estimated. Its
    derivative is a central difference. ``ObjectiveError`` if it raises, if it returns anything but
    a finite number, or if its cost rises wherever a latency falls.
    """

    def __init__(self, function: Callable[[tuple[float, ...]], float]) -> None:
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))

    def of(self, latencies: tuple[float, ...]) -> float:
        """Return the cost of these latencies in seconds, one for each network."""
        given = f"objective {self.name}({latencies})"
        try:
            with users_code("it"):
                value = self.function(latencies)
        except Exception as error:
            raise ObjectiveError(f"{given} raised {type(error).__name__}: {error}") from error
        try:
            cost = float(value)
        except (TypeError, ValueError) as error:
            raise ObjectiveError(f"{given} returned {value!r}; return a number") from error
        if not math.isfinite(cost):
            raise ObjectiveError(f"{given} returned {cost}; return a finite number")
        return cost

    def cost(self, progress: Sequence[TaskProgress]) -> float:
        latencies = network_latencies(progress)
        return math.nan if any(map(math.isnan, latencies)) else self.of(latencies)

    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        latencies = total(progress, estimated_latencies(progress))
        partial = [self._derivative(latencies, network) for network in range(len(latencies))]
        if partial and min(partial) < 0.0 >= max(partial):
            raise ObjectiveError(
                f"objective {self.name}({latencies}) rises when a latency falls; return a cost, "
                "which is minimized"
            )
        return [
            max(0.0, math.fsum(w * d for w, d in zip(task.weights, partial, strict=True)))
            for task in progress
        ]

    def _derivative(self, latencies: tuple[float, ...], network: int) -> float:
        step = STEP * latencies[network]
        if not step:
            return 0.0
        costs = []
        for moved in (step, -step):
            point = list(latencies)
            point[network] += moved
            costs.append(self.of(tuple(point)))
        return (costs[0] - costs[1]) / (2.0 * step)

    @property
    def settings(self) -> Mapping[str, object]:
        return {"function": self.function}
