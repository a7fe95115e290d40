"""Task schedulers: what all of them do, two that are baselines, and those of users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from schedlang.errors import SchedlangError
from schedlang.search.tasks.estimates import estimated_latencies
from schedlang.search.tasks.objective import Latency, Objective
from schedlang.search.tasks.progress import TaskProgress


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
        self.objective = objective or Latency()
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
