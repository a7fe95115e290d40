"""Task schedulers: which task of a network gets the next slice of trials."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from schedlang.errors import SchedlangError
from schedlang.printed import not_among
from schedlang.search.task_objective import (
    OBJECTIVES,
    Objective,
    ObjectiveError,
    Requirements,
    Speedup,
    TaskProgress,
    TotalLatency,
    UserFunction,
    UserObjective,
    best_rates,
    estimated_latencies,
    make_objective,
    network_latencies,
)

__all__ = [
    "EqualSplit",
    "GradientScheduler",
    "OBJECTIVES",
    "Objective",
    "ObjectiveError",
    "RepresentativesFirst",
    "Requirements",
    "RoundRobin",
    "SCHEDULERS",
    "SchedulerBase",
    "Speedup",
    "TaskProgress",
    "TaskScheduler",
    "TotalLatency",
    "UserObjective",
    "UserScheduler",
    "make_objective",
    "make_scheduler",
    "network_latencies",
]


# -- What all of them do, two baselines, and those of users ---------------------------------------


class TaskScheduler(Protocol):
    """Decides which task gets the next slice of trials. A class of your own needs ``next`` only.

    It is a function of what it is given, and keeps no state: an interrupted call of
    ``tune_network`` is continued by asking a new scheduler with the stored histories.
    """

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return the index of the task that gets the next slice; ``None`` if no task wants one."""


class SchedulerBase(ABC):
    """The base of our schedulers: who may get a slice, and a first slice for every task.

    A task wants trials if it is open (neither finished nor at its limit), a lower latency of it
    lowers the cost, and it has not used up its patience. Until each of those has had a slice, the
    one with the largest share of the cost is next (Ansor, 6.2, the warm-up); then ``choose``
    decides.

    Parameters
    ----------
    objective: the cost to minimize; the sum of latencies by default.
    patience: number of trials that a task may take without a gain of more than 1% before it gets no
        more (early stopping: Ansor, Table 2, f4); ``None`` disables it.
    seed: of random choices.
    """

    name: str

    def __init__(
        self, objective: Objective | None = None, *, patience: int | None = None, seed: int = 0
    ) -> None:
        if patience is not None and (type(patience) is not int or patience < 1):
            raise ValueError(f"patience={patience!r}; give a whole number of trials, 1 or more")
        self.objective = objective or TotalLatency()
        self.patience = patience
        self.seed = seed

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return the index of the task that gets the next slice; ``None`` if no task wants one."""
        if not progress:
            return None
        for task in progress:
            if len(task.weights) != len(progress[0].weights):
                raise ValueError(
                    f"weights={task.weights} and {progress[0].weights}: give each task a number "
                    "for every network"
                )
        slopes = self.objective.slopes(progress)
        wanted = [i for i, task in enumerate(progress) if task.open and self._is_patient(task)]
        # The slope of a task that was never tried may come from a poor estimate.
        fresh = [
            i
            for i in wanted
            if not progress[i].latencies
            and any(progress[i].weights)
            and (slopes[i] > 0.0 or not progress[i].known)
        ]
        if fresh:
            latencies = estimated_latencies(progress)
            return max(fresh, key=lambda i: (slopes[i] * latencies[i], -i))
        wanted = [i for i in wanted if slopes[i] > 0.0]
        return self.choose(progress, wanted, slopes) if wanted else None

    def _is_patient(self, task: TaskProgress) -> bool:
        return self.patience is None or task.trials_without_gain < self.patience

    @abstractmethod
    def choose(
        self, progress: Sequence[TaskProgress], wanted: Sequence[int], slopes: Sequence[float]
    ) -> int:
        """Return one of ``wanted``, the indices of tasks that want trials and have had some.

        ``slopes`` are the derivatives of the cost by the latency of each task.
        """

    @property
    def settings(self) -> Mapping[str, object]:
        """What tells it from another scheduler of the same name."""
        return {
            "objective": self.objective.name,
            **self.objective.settings,
            "patience": self.patience,
            "seed": self.seed,
        }


class RoundRobin(SchedulerBase):
    """The task with the fewest slices is next: a baseline."""

    name = "round_robin"

    def choose(
        self, progress: Sequence[TaskProgress], wanted: Sequence[int], slopes: Sequence[float]
    ) -> int:
        return min(wanted, key=lambda i: (len(progress[i].latencies), i))


class EqualSplit(SchedulerBase):
    """The task with the fewest trials is next, whatever the sizes of slices: a baseline."""

    name = "equal_split"

    def choose(
        self, progress: Sequence[TaskProgress], wanted: Sequence[int], slopes: Sequence[float]
    ) -> int:
        return min(wanted, key=lambda i: (progress[i].trials, len(progress[i].latencies), i))


class UserScheduler:
    """Checks what the ``next`` of an object of the user returns."""

    def __init__(self, scheduler: TaskScheduler) -> None:
        self.scheduler = scheduler
        self.name = str(getattr(scheduler, "name", type(scheduler).__name__))

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return its choice; SchedlangError if that is no task or one that takes no more trials."""
        chosen = self.scheduler.next(progress)
        if chosen is None:
            return None
        if isinstance(chosen, bool) or not hasattr(chosen, "__index__"):
            raise SchedlangError(
                f"scheduler {self.name!r}: next returned {chosen!r}; return the index of a task, "
                "or None to stop"
            )
        index = chosen.__index__()
        if not 0 <= index < len(progress):
            raise SchedlangError(
                f"scheduler {self.name!r}: next returned {index} for {len(progress)} tasks"
            )
        if not progress[index].open:
            raise SchedlangError(
                f"scheduler {self.name!r}: next returned task {index}, which takes no more trials; "
                "choose one with progress[i].open"
            )
        return index

    @property
    def settings(self) -> Mapping[str, object]:
        """Its own settings, where it has some."""
        return dict(getattr(self.scheduler, "settings", {}))


# -- The task whose next slice should lower the cost most -----------------------------------------


class GradientScheduler(SchedulerBase):
    """Gradient descent over tasks (Ansor, 6.2 and appendix A).

    The derivative of the cost by the trials of a task is approximated by its slope (the derivative
    by the task's latency) times::

        alpha * (g(t) - g(t - window)) / (trials between)
            + (1 - alpha) * min(-gain / t, (beta * C / V - g(t)) / (slice * (1 + stale)))
        gain = min(g(t), g(t / 2) - g(t) + optimism * g(t))

    where g is the lowest latency after t trials, C the operations of a call and V the highest rate
    among the tasks of its kin. The task with the largest absolute value is next. The unit of t is a
    trial, and ``slice`` is the number of trials of the task's last slice: with slices of one size,
    the order of tasks is the paper's, whose unit is a slice.

    Two terms are not the paper's, which expects that another t trials may bring the latency to 0.
    Here they may gain what the last t / 2 gained, and ``optimism`` of the latency besides; 1 is the
    paper's guess, which spends too much on heavy tasks that have converged. ``stale`` is the number
    of slices since the last gain: without it, a task that cannot reach its kin is always next.

    Parameters
    ----------
    objective, patience, seed: see ``SchedulerBase``.
    alpha: weight of the past, from 0 to 1; the rest is that of the prediction.
    beta: factor on the latency that the kin's rate predicts; lower values trust it more.
    window: number of slices of the backward difference.
    optimism: fraction of its latency that a task may lose unexpectedly, from 0 to 1.
    epsilon: probability of a random task instead. The seed and the number of slices so far decide.
    """

    name = "gradient"

    def __init__(
        self,
        objective: Objective | None = None,
        *,
        alpha: float = 0.2,
        beta: float = 2.0,
        window: int = 3,
        optimism: float = 0.3,
        epsilon: float = 0.05,
        patience: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(objective, patience=patience, seed=seed)
        for name, fraction in (("alpha", alpha), ("optimism", optimism), ("epsilon", epsilon)):
            if not 0.0 <= fraction <= 1.0:
                raise ValueError(f"{name}={fraction!r}; give a number from 0 to 1")
        if not beta > 0.0:
            raise ValueError(f"beta={beta!r}; give a positive number")
        if type(window) is not int or window < 1:
            raise ValueError(f"window={window!r}; give a whole number of slices, 1 or more")
        self.alpha = alpha
        self.beta = beta
        self.window = window
        self.optimism = optimism
        self.epsilon = epsilon

    def choose(
        self, progress: Sequence[TaskProgress], wanted: Sequence[int], slopes: Sequence[float]
    ) -> int:
        slices = sum(len(task.latencies) for task in progress)
        rng = random.Random(f"{self.seed} {slices}")
        if rng.random() < self.epsilon:
            return rng.choice(wanted)
        latencies = estimated_latencies(progress)
        rates = best_rates(progress)
        gains = {
            i: slopes[i]
            * (
                self.alpha * self._past_gain(progress[i])
                + (1.0 - self.alpha) * self._predicted_gain(progress[i], latencies[i], rates)
            )
            for i in wanted
        }
        return max(wanted, key=lambda i: (gains[i], -i))

    def _past_gain(self, task: TaskProgress) -> float:
        """Seconds that a trial gained over the last slices; 0 after one slice."""
        end, now = task.history[-1]
        # The default at 0 trials is no result of a search: the first slice gains most of it.
        start, before = task.history[max(1, len(task.history) - 1 - self.window)]
        return (before - now) / (end - start) if before > now and end > start else 0.0

    def _predicted_gain(
        self, task: TaskProgress, latency: float, rates: Mapping[str, float]
    ) -> float:
        """Seconds that the next trial should gain."""
        optimistic = self._optimistic_gain(task, latency) / max(task.trials, 1)
        if not task.flops or task.kin not in rates:
            return optimistic
        slices = len(task.latencies)
        size = max(task.trials - task.history[slices - 1][0], 1)
        similar = latency - self.beta * task.flops / rates[task.kin]
        return max(optimistic, similar / (size * (1 + slices - task.last_gain)))

    def _optimistic_gain(self, task: TaskProgress, latency: float) -> float:
        """Seconds that as many trials again may gain."""
        early = [best for trials, best in task.history[1:] if 2 * trials <= task.trials]
        if not early or math.isnan(early[-1]):
            return latency
        return min(latency, early[-1] - latency + self.optimism * latency)

    @property
    def settings(self) -> Mapping[str, object]:
        return {
            **super().settings,
            "alpha": self.alpha,
            "beta": self.beta,
            "window": self.window,
            "optimism": self.optimism,
            "epsilon": self.epsilon,
        }


# -- The tasks of a few networks first, the others from what was found for them -------------------

HALF = 0.5
"""Most of the budget that goes to the representatives alone."""
_PATIENCE = 3


class RepresentativesFirst:
    """A scheduler for networks that are one model at several sizes.

    Tasks that a representative calls have the trials to themselves until half of the budget is
    used, or until none of them has gained anything in its last three slices. Then the scheduler
    chooses among all tasks: each of the others has a first slice, in which a search with
    ``transfer`` measures what was fast for the nearest sizes, and more where that lowers the cost.

    It keeps no state: see ``TaskScheduler``.

    Parameters
    ----------
    scheduler: chooses among the tasks of the representatives, and then among all.
    networks: places of the representatives among the networks.
    used: returns the fraction of the budget that is used, from 0 to 1.
    """

    def __init__(
        self,
        scheduler: TaskScheduler,
        networks: Collection[int],
        used: Callable[[Sequence[TaskProgress]], float],
    ) -> None:
        self.scheduler = scheduler
        self.networks = tuple(networks)
        self._used = used
        self.name = f"representatives first, {getattr(scheduler, 'name', type(scheduler).__name__)}"

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return the index of the task that gets the next slice; ``None`` if no task wants one."""
        first = [any(task.weights[k] for k in self.networks) for task in progress]
        of_them = [task for task, is_first in zip(progress, first, strict=True) if is_first]
        if self._used(progress) < HALF and not all(map(_has_converged, of_them)):
            alone = [
                task if is_first or task.finished else replace(task, finished=True)
                for task, is_first in zip(progress, first, strict=True)
            ]
            place = self.scheduler.next(alone)
            if place is not None:
                return place
        return self.scheduler.next(progress)

    @property
    def settings(self) -> Mapping[str, object]:
        """What tells it from another scheduler of the same name."""
        return {**getattr(self.scheduler, "settings", {}), "representatives": self.networks}


def _has_converged(task: TaskProgress) -> bool:
    return not task.open or len(task.latencies) - task.last_gain >= _PATIENCE


# -- Schedulers by name ---------------------------------------------------------------------------

SCHEDULERS: Mapping[str, type[SchedulerBase]] = {
    make.name: make for make in (GradientScheduler, RoundRobin, EqualSplit)
}


def make_scheduler(
    scheduler: str | TaskScheduler = "gradient",
    *,
    objective: str | Objective | UserFunction = "latency",
    limits: Sequence[float] | float | None = None,
    patience: int | None = None,
    networks: int = 1,
    weights: Sequence[float] | None = None,
    seed: int = 0,
) -> SchedulerBase | UserScheduler:
    """Make the scheduler called ``scheduler``, or check the choices of the object that it is.

    Parameters
    ----------
    scheduler: ``"gradient"``, ``"round_robin"``, ``"equal_split"``, or an object with
        ``next(progress)``, which has an objective of its own.
    objective, limits, networks, weights: see ``make_objective``.
    patience: number of trials that a task may take without a gain; ``None`` disables it.
    seed: of random choices.

    ValueError for another name, and for an objective, limits or patience beside an object.
    """
    if isinstance(scheduler, str):
        make = SCHEDULERS.get(scheduler)
        if make is None:
            said = not_among(f"scheduler={scheduler!r}", scheduler, SCHEDULERS)
            raise ValueError(f"{said}, or an object with next")
        cost = make_objective(objective, limits=limits, networks=networks, weights=weights)
        return make(cost, patience=patience, seed=seed)
    if isinstance(scheduler, type) or not callable(getattr(scheduler, "next", None)):
        raise ValueError(
            f"scheduler={scheduler!r} has no next(progress); give a name ({', '.join(SCHEDULERS)}) "
            "or an object that has it"
        )
    given = {
        "limits": limits,
        "patience": patience,
        "objective": None if objective == TotalLatency.name else objective,
    }
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"{name}={value!r} beside a scheduler object, which has its own; leave it out"
            )
    return scheduler if isinstance(scheduler, SchedulerBase) else UserScheduler(scheduler)
