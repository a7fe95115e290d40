"""A few sizes that stand for all: medoids by the logarithms of the extents that differ."""

from __future__ import annotations

import math
from collections.abc import Sequence


def representatives(
    extents: Sequence[Sequence[int]], weights: Sequence[float], count: int
) -> tuple[int, ...]:
    """Return the places of ``count`` sizes, so that the others are near to one of them.

    The distance of two sizes is the sum of the absolute logarithms of the ratios of their extents.
    Each is added where it lowers the weighted sum of the distances to the nearest most, and then
    moved while that lowers it (PAM: Kaufman and Rousseeuw, 1990).

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

    chosen: list[int] = []
    while len(chosen) < min(count, len(extents)):
        chosen.append(min((k for k in places if k not in chosen), key=lambda k: cost([*chosen, k])))
    while True:
        swaps = [
            [*chosen[:at], k, *chosen[at + 1 :]]
            for at in range(len(chosen))
            for k in places
            if k not in chosen
        ]
        best = min(swaps, key=cost, default=chosen)
        if cost(best) >= cost(chosen) * (1 - 1e-9):
            return tuple(sorted(chosen))
        chosen = best
