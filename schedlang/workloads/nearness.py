"""How alike the extents of two programs are, for schedules that are carried over."""

from __future__ import annotations

import math
from collections.abc import Iterable

# Weight of each factor of two that divides only one of two extents, and the most that count: a tile
# of 16 fits 768 as it fits 512, and not 771.
_WEIGHT, _MOST = 0.35, 4


def coordinates(extents: Iterable[int]) -> list[float]:
    """Return numbers of which the absolute differences add up to the distance of two programs.

    Two for each extent: its logarithm, and the powers of two that divide it.
    """
    found = []
    for extent in extents:
        number = max(int(extent), 1)
        twos = (number & -number).bit_length() - 1
        found += [math.log(number), _WEIGHT * min(twos, _MOST)]
    return found
