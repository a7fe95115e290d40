"""The p-value that says whether two programs are equally fast."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys

import pytest

from schedlang.measurement.finals import mann_whitney


def share_of_orders(one: list[float], other: list[float]) -> float:
    """Count the assignments of all samples to two programs that differ at least as much."""

    def excess(chosen: tuple[float, ...]) -> float:
        """Return how far U is from its mean; each pair counts for the greater."""
        rest = [value for value in (*one, *other) if value not in chosen]
        u = sum(a > b for a in chosen for b in rest)
        return abs(u - len(one) * len(other) / 2)

    orders = list(itertools.combinations((*one, *other), len(one)))
    found = excess(tuple(one))
    return sum(excess(chosen) >= found for chosen in orders) / len(orders)


@pytest.mark.parametrize(("n", "m"), [(1, 1), (1, 6), (2, 3), (4, 5), (5, 5)])
def test_it_is_exact_with_few_samples(n: int, m: int) -> None:
    rng = random.Random(n * 1000 + m)
    for shift in (0.0, 1.0, 5.0):
        one = [rng.gauss(0, 1) for _ in range(n)]
        other = [rng.gauss(shift, 1) for _ in range(m)]
        assert mann_whitney(one, other) == pytest.approx(share_of_orders(one, other))
        assert mann_whitney(other, one) == pytest.approx(mann_whitney(one, other))


def test_many_samples_and_ties_take_the_normal_approximation() -> None:
    one, other = [1.0, 2.0, 2.0, 3.0] * 5, [2.0, 3.0, 3.0, 4.0] * 5
    n, m = len(one), len(other)
    u = sum((a > b) + (a == b) / 2 for a in other for b in one)
    ties = sum(t**3 - t for t in (5, 15, 15, 5))
    spread = math.sqrt(n * m / 12 * (n + m + 1 - ties / ((n + m) * (n + m - 1))))
    z = (u - n * m / 2 - 0.5) / spread
    assert mann_whitney(one, other) == pytest.approx(math.erfc(z / math.sqrt(2)))


def test_equal_samples_differ_by_chance_only() -> None:
    assert mann_whitney([2.0] * 10, [2.0] * 12) == 1.0
    assert mann_whitney([1.0], [1.0]) == 1.0


def test_scipys_statistics_are_imported_by_the_first_test_only() -> None:
    program = "import sys, schedlang.measurement.finals as f; print('scipy.stats' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout.strip() == "False", found.stderr
