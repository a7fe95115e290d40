"""A few sizes that stand for all: which sizes of a model are tuned first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from schedlang.networks.sizes import NetworkSet, differing
from schedlang.search.tasks import HALF, TaskProgress
from schedlang.tuning.session import Call
from schedlang.workloads.structural_key import coordinates

# -- Which sizes of a model are tuned first -------------------------------------------------------

# Fewest trials for each task of a representative: fewer would leave all of them half tuned.
_TRIALS_EACH = 24
_MOST = 4
# About what a trial takes, where only seconds are given.
_SECONDS_EACH = 1.0


def chosen_representatives(networks: NetworkSet, call: Call) -> tuple[int, ...]:
    """Return the places of the sizes to tune first: as many as the budget serves, 4 at most.

    A size that is never called is none of them.
    """
    trials = call.trials
    if trials is None:
        trials = int(call.budget.seconds / _SECONDS_EACH)
    computing = sum(not task.moves_data for one in networks for task in one.tasks)
    each = _TRIALS_EACH * max(computing / len(networks), 1)
    count = min(max(int(HALF * trials / each), 1), _MOST, sum(one > 0 for one in networks.weights))
    return representatives(differing(networks.shapes), networks.weights, count)


def used_part(call: Call) -> Callable[[Sequence[TaskProgress]], float]:
    """Return a function that says which fraction of trials, or of the time, is used."""

    def used(progress: Sequence[TaskProgress]) -> float:
        by_time = call.budget.used / call.budget.seconds
        if call.trials is None:
            return by_time
        return max(sum(task.trials for task in progress) / max(call.trials, 1), by_time)

    return used


# -- Medoids by the extents that differ -----------------------------------------------------------

# Sizes whose extents differ by less than this (logarithm of the ratio) are neighbours.
_NEAR = 0.25
# A size is isolated where its distance to the nearest other is more than this, and that many times
# what it is in the median. Of fewer sizes nothing is told.
_ISOLATED, _FEWEST = 3.0, 4


def representatives(
    extents: Sequence[Sequence[int]], weights: Sequence[float], count: int
) -> tuple[int, ...]:
    """Return the places of ``count`` sizes, or fewer, so that the others are near to one of them.

    Each is added where it lowers the weighted sum of the distances to the nearest most, and then
    moved while that lowers it (PAM: Kaufman and Rousseeuw, 1990). A size is passed over for a
    neighbour that has more divisors, and is called as often: tiles of 16 carry over to 17, but not
    those of 17 to 16. One that is never called stands for none.

    Parameters
    ----------
    extents: for each size those that differ.
    weights: how often each size is called.
    """
    far = distances(extents)
    logarithms = np.log(np.maximum(np.array(extents, dtype=float), 1.0))
    alike = np.abs(logarithms[:, None, :] - logarithms[None, :, :]).sum(axis=2) < _NEAR
    weight = np.array(weights, dtype=float)
    divisors = np.array([sum(map(_divisors, one)) for one in extents])
    better = (divisors[None, :] > divisors[:, None]) & (weight[None, :] >= weight[:, None])
    called = (weight > 0) | ~weight.any()
    able = np.flatnonzero(~(alike & better).any(axis=1) & called)
    chosen: list[int] = []
    nearest = np.full(len(weight), np.inf)
    for _ in range(min(count, len(able))):
        chosen.append(_cheapest(nearest, far, weight, able, chosen)[0])
        nearest = np.minimum(nearest, far[:, chosen[-1]])
    while _moved(chosen, far, weight, able):
        pass
    return tuple(sorted(chosen))


def isolated(extents: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Return the places of sizes that are like no other, the farthest first.

    What is fast for others says little of them.
    """
    if len(extents) < _FEWEST:
        return ()
    far = distances(extents)
    np.fill_diagonal(far, np.inf)
    nearest = far.min(axis=1)
    limit = max(_ISOLATED * float(np.median(nearest)), _ISOLATED)
    return tuple(int(k) for k in np.argsort(-nearest, kind="stable") if nearest[k] > limit)


def distances(extents: Sequence[Sequence[int]]) -> np.ndarray:
    """Return the distance between each two sizes (``nearness``)."""
    places = np.array([coordinates(one) for one in extents])
    return np.array([np.abs(places - one).sum(axis=1) for one in places])


def _cheapest(
    nearest: np.ndarray, far: np.ndarray, weight: np.ndarray, able: np.ndarray, taken: Sequence[int]
) -> tuple[int, float]:
    """Return the size that is best to add, and the weighted sum of distances with it."""
    costs = weight @ np.minimum(nearest[:, None], far[:, able])
    costs[np.isin(able, taken)] = np.inf
    place = int(np.argmin(costs))
    return int(able[place]), float(costs[place])


def _moved(chosen: list[int], far: np.ndarray, weight: np.ndarray, able: np.ndarray) -> bool:
    """Replace one of the chosen where that lowers the sum; return whether it did."""
    now = float(weight @ far[:, chosen].min(axis=1))
    for place in range(len(chosen)):
        others = [*chosen[:place], *chosen[place + 1 :]]
        rest = far[:, others].min(axis=1) if others else np.full(len(weight), np.inf)
        size, cost = _cheapest(rest, far, weight, able, chosen)
        if cost < now * (1 - 1e-9):
            chosen[place] = size
            return True
    return False


def _divisors(number: int) -> int:
    small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
    return 2 * len(small) - (small[-1] ** 2 == number) if small else 0
