"""The p-value of the finals is that of SciPy's Mann-Whitney U test."""

from __future__ import annotations

import random

import pytest
from scipy.stats import mannwhitneyu

from schedlang.measurement.rank_test import mann_whitney

SIZES = [(1, 1), (1, 30), (2, 3), (5, 5), (8, 8), (8, 30), (9, 9), (30, 30), (30, 7), (40, 200)]


@pytest.mark.parametrize("ties", [False, True], ids=["no ties", "ties"])
@pytest.mark.parametrize(("n", "m"), SIZES)
def test_it_is_scipys(n: int, m: int, ties: bool) -> None:
    rng = random.Random(n * 1000 + m)
    for shift in (0.0, 0.3, 1.0, 5.0):
        one = [rng.gauss(0, 1) for _ in range(n)]
        other = [rng.gauss(shift, 1) for _ in range(m)]
        if ties:
            one, other = ([round(value, 1) for value in values] for values in (one, other))
        expected = mannwhitneyu(one, other, alternative="two-sided").pvalue
        assert mann_whitney(one, other) == pytest.approx(expected, rel=1e-9, abs=1e-300)
        assert mann_whitney(other, one) == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_equal_samples_differ_by_chance_only() -> None:
    assert mann_whitney([2.0] * 10, [2.0] * 12) == 1.0
    assert mann_whitney([1.0], [1.0]) == 1.0
