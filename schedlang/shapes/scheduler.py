"""Which shape of a set gets the next trials."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.optimize import nnls

from schedlang.search.tasks import TaskProgress


class Expectation:
    """What tasks should take, by what all of them take.

    That is a time for a call, one for each operation and one for each byte, none of them negative,
    fitted so that relative errors are small.

    Parameters
    ----------
    work: operations, or elements, and bytes of the arguments of one call of each task.
    """

    def __init__(self, work: Sequence[tuple[float, float]]) -> None:
        costs = np.array([(1.0, *one) for one in work])
        self._costs = costs / costs.mean(axis=0)

    def of(self, latencies: np.ndarray) -> np.ndarray:
        """Return the latency that each task should have; those that are infinite tell nothing."""
        known = np.isfinite(latencies) & (latencies > 0)
        if not known.any():
            return np.ones(len(latencies))
        scaled = self._costs[known] / latencies[known, None]
        size = scaled.max()
        try:
            factors, _ = nnls(scaled / size, np.ones(len(scaled)), maxiter=100)
        except RuntimeError:  # it has not converged
            return np.ones(len(latencies))
        found: np.ndarray = self._costs @ factors / size
        return found


class ShapesScheduler:
    """A task scheduler: some tasks in earnest, then a slice for each other, then those behind.

    A task is behind where it takes longer than expected. What a task has had already counts against
    it.

    Parameters
    ----------
    first: places of the tasks that are tuned in earnest, in order.
    trials: of each of them.
    far: distance between each two tasks.
    expectation: of the tasks.
    """

    def __init__(
        self, first: Sequence[int], trials: int, far: np.ndarray, expectation: Expectation
    ) -> None:
        self._first, self._trials = list(first), trials
        self._expectation = expectation
        nearest = far[:, self._first].min(axis=1) if self._first else np.zeros(len(far))
        self._others = [int(k) for k in np.argsort(nearest, kind="stable") if k not in first]

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
        latencies = np.array([one.latency for one in progress])
        expected = self._expectation.of(latencies)

        def standing(place: int) -> float:
            if not math.isfinite(latencies[place]):
                return 0.0
            had = math.sqrt(len(progress[place].latencies))
            return float(expected[place] / latencies[place]) * had

        return min(able, key=standing)
