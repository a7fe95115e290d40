"""Which of two programs is faster, judged from the samples of their measurements."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from schedlang.measurement import Measurement


def surely_faster(one: Measurement, other: Measurement, level: float) -> bool:
    """Return whether ``one`` is faster than ``other`` at this level of significance.

    A failure is slower than anything that works. Samples are compared as in Droplet Search, 3.3.
    """
    if not one.ok or not other.ok:
        return one.ok
    return p_value(one.samples, other.samples) < level


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """Compute the p-value of a one-sided t-test that the mean of ``one`` is below ``other``'s.

    Welch's test, because a program that was given up early has fewer samples. With a single sample
    on one side, Student's test with the variance of the other side. Without any variance the
    p-value is 0 if the mean of ``one`` is lower, else 1.
    """
    difference = statistics.fmean(one) - statistics.fmean(other)
    squared, freedom = _squared_error(one, other)
    if squared <= 0:
        return 0.0 if difference < 0 else 1.0
    from scipy.special import stdtr

    return float(stdtr(freedom, difference / math.sqrt(squared)))


def _squared_error(one: Sequence[float], other: Sequence[float]) -> tuple[float, float]:
    """Squared error of the difference of the means, and its degrees of freedom; 0 if unknown."""
    few, many = sorted((one, other), key=len)
    if len(many) < 2:
        return 0.0, 0.0
    variance = statistics.variance(many)
    if len(few) < 2:
        return variance * (1 + 1 / len(many)), len(many) - 1
    parts = [(statistics.variance(s) / len(s), len(s) - 1) for s in (few, many)]
    total = math.fsum(part for part, _ in parts)
    spread = math.fsum(part * part / freedom for part, freedom in parts)
    return total, total * total / spread if spread > 0 else 0.0
