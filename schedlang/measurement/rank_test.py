"""The Mann-Whitney U test: whether two programs are equally fast.

SciPy has it too, and importing ``scipy.stats`` takes a second; the tests compare the two.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate

# With more samples of both, the normal distribution is near enough.
_EXACT = 8


def mann_whitney(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the p-value of the two-sided test: the probability of samples that differ this much.

    It is exact where there are at most 8 samples of one and no ties, else by the normal
    approximation with corrections for ties and continuity, as ``scipy.stats.mannwhitneyu`` does.
    """
    n, m = len(one), len(other)
    ranks, ties = _ranks([*one, *other])
    u = sum(ranks[:n]) - n * (n + 1) / 2
    u = max(u, n * m - u)
    if min(n, m) <= _EXACT and not ties:
        counts = _distribution(n, m)
        return min(2 * sum(counts[round(u) :]) / math.comb(n + m, n), 1.0)
    both = n + m
    corrected = both + 1 - sum(t**3 - t for t in ties) / (both * (both - 1))
    if corrected <= 0:
        return 1.0  # all samples are equal
    z = (u - n * m / 2 - 0.5) / math.sqrt(n * m / 12 * corrected)
    return min(math.erfc(z / math.sqrt(2)), 1.0)


def _ranks(values: Sequence[float]) -> tuple[list[float], list[int]]:
    """Return the rank of each value from 1, the mean rank of equal ones, and the sizes of ties."""
    counts = Counter(values)
    ordered = sorted(counts)
    ends = accumulate(counts[value] for value in ordered)
    rank = {value: end - (counts[value] - 1) / 2 for value, end in zip(ordered, ends, strict=True)}
    return [rank[value] for value in values], [count for count in counts.values() if count > 1]


def _distribution(n: int, m: int) -> list[int]:
    """Return in how many orders of n and m values U has each value, from 0.

    They are the coefficients of the Gaussian binomial, the product of (1 - x^(m+k)) / (1 - x^k) for
    k from 1 to n.
    """
    length = n * m + 1
    counts = [1] + [0] * (length - 1)
    for k in range(1, n + 1):
        for place in range(length - 1, m + k - 1, -1):
            counts[place] -= counts[place - m - k]
        for place in range(k, length):
            counts[place] += counts[place - k]
    return counts
