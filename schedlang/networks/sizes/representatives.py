"""A few sizes that stand for all: medoids by the logarithms of the extents that differ."""

from __future__ import annotations

import math
from collections.abc import Sequence

# Sizes whose extents differ by less than this (logarithm of the ratio) are neighbours.
_NEAR = 0.25


def representatives(
    extents: Sequence[Sequence[int]], weights: Sequence[float], count: int
) -> tuple[int, ...]:
    """Return the places of ``count`` sizes, or fewer, so that the others are near to one of them.

    The distance of two sizes is the sum of the absolute logarithms of the ratios of their extents.
    Each is added where it lowers the weighted sum of the distances to the nearest most, and then
    moved while that lowers it (PAM: Kaufman and Rousseeuw, 1990). A size is passed over for a
    neighbour that has more divisors, and is called as often: tiles of 16 carry over to 17, but not
    those of 17 to 16.

    Parameters
    ----------
    extents: for each size those that differ.
    weights: how often each size is called.
    """
    logarithms = [[math.log(max(extent, 1)) for extent in one] for one in extents]
    places = range(len(extents))
    apart = [
        [sum(abs(a - b) for a, b in zip(one, other, strict=True)) for other in logarithms]
        for one in logarithms
    ]

    def cost(chosen: Sequence[int]) -> float:
        return math.fsum(weights[k] * min(apart[k][one] for one in chosen) for k in places)

    divisors = [sum(map(_divisors, one)) for one in extents]
    able = [
        k
        for k in places
        if not any(
            apart[k][other] < _NEAR
            and divisors[other] > divisors[k]
            and weights[other] >= weights[k]
            for other in places
        )
    ]
    chosen: list[int] = []
    while len(chosen) < min(count, len(able)):
        chosen.append(min((k for k in able if k not in chosen), key=lambda k: cost([*chosen, k])))
    while True:
        swaps = [
            [*chosen[:at], k, *chosen[at + 1 :]]
            for at in range(len(chosen))
            for k in able
            if k not in chosen
        ]
        best = min(swaps, key=cost, default=chosen)
        if cost(best) >= cost(chosen) * (1 - 1e-9):
            return tuple(sorted(chosen))
        chosen = best


def _divisors(number: int) -> int:
    return sum(number % one == 0 for one in range(1, number + 1))
