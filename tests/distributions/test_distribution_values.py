"""What the distributions other than tiles do with particular values."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, strategies as st

from schedlang.distributions import (
    Categorical,
    ComputeLocation,
    Distribution,
    IntRange,
    Permutation,
    Subset,
)


@pytest.mark.parametrize(
    ("distribution", "decision", "expected"),
    [
        (Categorical((512, 0, 64, 16)), 16, {0, 64}),
        (Categorical((512, 0, 64, 16)), 512, {64}),
        (Categorical((1, 2, 3), (1, 0, 1)), 1, {3}),
        (ComputeLocation((2, -2, -1)), -1, {-2, 2}),
        (ComputeLocation((-2, -1, 0, 1, 2)), 1, {-2, 0, 2}),
        (ComputeLocation((-2, -1, 0, 1, 2)), -2, {-1, 0, 1, 2}),
        (ComputeLocation((-1, 0, 1, 2)), 2, {1}),
        (IntRange(10, 0, -3), 7, {10, 4}),
        (Permutation(3), (2, 0, 1), {(0, 2, 1), (2, 1, 0)}),
        (Subset((7, 5, 9), max_size=2), (5,), {(), (7, 5), (5, 9)}),
        (Subset((7, 5, 9), max_size=2), (7, 9), {(7,), (9,)}),
        (Subset((7, 5, 9), 1, 1), (5,), {(7,), (9,)}),
    ],
    ids=str,
)
def test_neighbours(distribution: Distribution, decision: object, expected: set[object]) -> None:
    assert set(distribution.neighbours(decision)) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("distribution", "misfit", "repaired"),
    [
        (Categorical((0, 16, 64)), 40, 16),
        (Categorical((0, 16, 64)), 41.5, 64),
        (Categorical((0, 16, 64), (1, 0, 0)), 16, 0),
        (Categorical((1, 2, 3), (1, 5, 1)), "junk", 2),
        (ComputeLocation((-1, 0, 1)), 5, 1),
        (ComputeLocation((-2, -1, 3)), None, -1),
        (IntRange(0, 100, 10), 14, 10),
        (IntRange(0, 100, 10), 15, 10),
        (IntRange(0, 100, 10), 16, 20),
        (IntRange(0, 100, 10), 1e300, 90),
        (IntRange(100, 0, -10), 84, 80),
        (IntRange(0, 100, 10), (), 0),
        (Permutation(4), (3, 3, 1), (3, 1, 0, 2)),
        (Permutation(3), (0, 1, 2, 3), (0, 1, 2)),
        (Subset((7, 5, 9), max_size=2), (9, 5, 7), (7, 5)),
        (Subset((7, 5, 9), min_size=2), (9, 4), (7, 9)),
    ],
    ids=str,
)
def test_repair(distribution: Distribution, misfit: object, repaired: object) -> None:
    assert distribution.repair(misfit) == repaired


@pytest.mark.parametrize(
    ("distribution", "origin"),
    [
        (Categorical((9, 3, 5)), 3),
        (Categorical((9, 3, 5), (1, 1, 2)), 5),
        (ComputeLocation((-2, -1, 0)), -1),
        (ComputeLocation((-2, 0)), -2),
        (ComputeLocation((-2, -1, 0), (1, 1, 5)), 0),
        (ComputeLocation((-2, -1, 0, 1), (1, 1, 1, 0.75)), -1),
        (ComputeLocation((-2, -1, 0, 1), (2, 1, 2, 0.5)), -2),
        (ComputeLocation((-2, -1, 0, 1), (1, 0, 1, 0.5)), -2),
        (IntRange(4, 9), 4),
        (Permutation(3), (0, 1, 2)),
        (Subset((4, 2, 6), min_size=1), (4,)),
    ],
    ids=str,
)
def test_origin(distribution: Distribution, origin: object) -> None:
    assert distribution.origin() == origin


def test_subset_hands_out_a_mask() -> None:
    subset = Subset((7, 5, 9))
    assert subset.outputs((7, 9)) == (1, 0, 1)
    assert subset.outputs(()) == (0, 0, 0)
    assert subset.n_outputs == 3


@given(
    st.lists(st.integers(-5, 9), min_size=1, max_size=6, unique=True).map(tuple),
    st.integers(0, 6),
    st.none() | st.integers(0, 6),
)
def test_subset_counts_what_it_lists(
    items: tuple[int, ...], smallest: int, largest: int | None
) -> None:
    top = len(items) if largest is None else min(largest, len(items))
    smallest = min(smallest, top)
    subset = Subset(items, smallest, None if largest is None else top)
    expected = {
        tuple(itertools.compress(items, mask))
        for mask in itertools.product((0, 1), repeat=len(items))
        if smallest <= sum(mask) <= top
    }
    assert set(subset.support()) == expected
    assert subset.size() == len(expected)
    for order in itertools.permutations(items, min(2, len(items))):
        assert subset.permits(order) is (order in expected)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-7, 7).filter(bool))
def test_int_range_is_pythons_range(start: int, stop: int, step: int) -> None:
    values = range(start, stop, step)
    if not values:
        with pytest.raises(ValueError, match="empty"):
            IntRange(start, stop, step)
        return
    distribution = IntRange(start, stop, step)
    assert list(distribution.support()) == list(values)
    for misfit in range(-60, 60):
        assert distribution.permits(misfit) is (misfit in values)
        nearest = min(abs(misfit - value) for value in values)
        assert abs(distribution.repair(misfit) - misfit) == nearest


def test_huge_supports_are_never_listed() -> None:
    rng = random.Random(0)
    whole = IntRange(-(2**60), 2**60)
    assert whole.size() == 2**61
    drawn = [whole.sample(rng) for _ in range(500)]
    assert any(d % 2 for d in drawn)  # all bits are drawn, not only the 53 of one double
    assert min(drawn) < -(2**58) < 2**58 < max(drawn)
    assert Permutation(200).size() == math.factorial(200)
    assert next(Permutation(200).support()) == tuple(range(200))
    assert Subset(tuple(range(1000))).size() == 2**1000
    assert Subset(tuple(range(1000))).log_prob(()) == pytest.approx(-1000 * math.log(2))


def test_probabilities_are_normalised() -> None:
    assert Categorical((1, 2), (1, 3)) == Categorical((1, 2), (0.25, 0.75))
    assert Categorical((1, 2), (4, 4)) == Categorical((1, 2)) == Categorical((1, 2), (0.5, 0.5))
    assert Categorical((1, 2), (1, 3)).probabilities() == (0.25, 0.75)
    assert Categorical((1, 2)).probabilities() == (0.5, 0.5)
    assert Categorical((1, 2), (1e308, 1e308 / 3)).log_prob(1) == pytest.approx(math.log(0.75))


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=9).filter(any))
def test_normalising_twice_changes_nothing(weights: list[float]) -> None:
    once = Categorical(tuple(range(len(weights))), tuple(weights))
    assert Categorical(once.candidates, once.probs) == once
