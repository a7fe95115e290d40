"""What a task scheduler knows of a task, and the cost of the latencies of networks.

Some latencies are not known yet; they are estimated from those that are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from schedlang.errors import SchedlangError, users_code
from schedlang.printed import not_among

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


# -- What a task scheduler minimizes: the cost of the latencies of networks -----------------------

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


# -- Objectives by name ---------------------------------------------------------------------------

OBJECTIVES = (TotalLatency.name, Requirements.name, Speedup.name)

UserFunction = Callable[[tuple[float, ...]], float]


def make_objective(
    objective: str | Objective | UserFunction = "latency",
    *,
    limits: Sequence[float] | float | None = None,
    networks: int = 1,
    weights: Sequence[float] | None = None,
) -> Objective:
    """Make the objective called ``objective``, or of the function that it is.

    Parameters
    ----------
    objective: ``"latency"``, ``"requirements"``, ``"speedup"``, or a function from a tuple with the
        latency of each network, in seconds, to a cost.
    limits: for ``"requirements"``: seconds for each network; one number for one network.
    networks: number of networks.
    weights: for ``"latency"``: how often each network runs.

    ValueError for another name, for limits that are missing, too many or not asked for, and for
    what is no objective. ``ObjectiveError`` for a function that does not work.
    """
    if limits is not None and objective != Requirements.name:
        raise ValueError(f"limits={limits!r} need objective='requirements', not {objective!r}")
    if isinstance(objective, Objective):
        return objective
    if objective == Requirements.name:
        if limits is None:
            raise ValueError("objective='requirements' needs limits=: seconds for each network")
        given = Requirements([limits] if isinstance(limits, int | float) else limits)
        if len(given.limits) != networks:
            raise ValueError(f"limits={limits!r}: {len(given.limits)} for {networks} networks")
        return given
    if objective == TotalLatency.name:
        return TotalLatency(weights)
    if objective == Speedup.name:
        return Speedup()
    if callable(objective):
        own = UserObjective(objective)
        own.of((1.0,) * networks)  # a mistake shows now, not after the first slices
        return own
    said = not_among(f"objective={objective!r}", objective, OBJECTIVES)
    raise ValueError(f"{said}, or give f(latencies) -> float")
