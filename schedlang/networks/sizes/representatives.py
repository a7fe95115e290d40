"""A few sizes that stand for all: medoids by the extents that differ."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from schedlang.workloads.nearness import coordinates

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
