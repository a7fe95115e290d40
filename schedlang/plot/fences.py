"""Ends of axes of samples: outliers do not stretch them, and are drawn at the edge."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence


def without_outliers(samples: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest sample up to Tukey's fences.

    The fences lie one and a half interquartile ranges outside the quartiles.
    """
    if len(samples) < 2:
        return samples[0], samples[0]
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    fence = 1.5 * (third - first)
    inside = [one for one in samples if first - fence <= one <= third + fence]
    return min(inside), max(inside)


def axis_of(groups: Iterable[Sequence[float]], shown: Iterable[float]) -> list[float]:
    """Return both ends of an axis: all of ``shown``, each group without its outliers, some room."""
    ends = [*shown, *(end for group in groups for end in without_outliers(group))]
    low, high = min(ends), max(ends)
    room = 0.06 * (high - low) or 0.02 * abs(low) or 0.01
    return [low - room, high + room]
