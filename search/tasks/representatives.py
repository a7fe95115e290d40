"""The tasks of a few networks first, and the others from what was found for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from schedlang.search.tasks.progress import TaskProgress
from schedlang.search.tasks.scheduler import TaskScheduler

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
