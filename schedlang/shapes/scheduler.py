"""Which shape of a set gets the next trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from schedlang.search.tasks import TaskProgress

# Shapes that a shape's rate is compared with.
_NEIGHBOURS = 5


class ShapesScheduler:
    """A task scheduler: some tasks in earnest, then a slice for each other, then those behind.

    A task is behind where it reaches a smaller part of the rate (operations a second) that the
    nearest ones reach than others do; what it has had already counts against it.

    Parameters
    ----------
    first: places of the tasks that are tuned in earnest, in order.
    trials: of each of them.
    far: distance between each two tasks.
    work: operations, or elements, of one call of each task.
    """

    def __init__(
        self, first: Sequence[int], trials: int, far: np.ndarray, work: Sequence[float]
    ) -> None:
        self._first, self._trials = list(first), trials
        self._work = np.array(work, dtype=float)
        nearest = far[:, self._first].min(axis=1) if self._first else np.zeros(len(far))
        self._others = [int(k) for k in np.argsort(nearest, kind="stable") if k not in first]
        self._near = np.argsort(far, axis=1, kind="stable")[:, 1 : _NEIGHBOURS + 1]

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return the place of the task that gets the next slice; None if none wants one."""
        for place in self._first:
            if progress[place].open and progress[place].trials < self._trials:
                return place
        for place in self._others:
            if progress[place].open and not progress[place].latencies:
                return place
        able = [k for k in self._others if progress[k].open and progress[k].trials < self._trials]
        if not able:
            return None
        rates = self._work / np.array([one.latency for one in progress])
        return min(able, key=lambda place: self._standing(place, rates, progress[place]))

    def _standing(self, place: int, rates: np.ndarray, progress: TaskProgress) -> float:
        around = rates[self._near[place]]
        around = around[np.isfinite(around)]
        if not len(around) or not math.isfinite(rates[place]):
            return 0.0
        return float(rates[place] / np.median(around)) * math.sqrt(len(progress.latencies))
