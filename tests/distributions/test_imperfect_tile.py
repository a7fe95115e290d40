"""ImperfectTile against brute force, and what its bounds mean."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest
from hypothesis import given, settings, strategies as st

from schedlang.distributions import ImperfectTile, PerfectTile


def all_tiles(extent: int, n: int, bound: int | None, max_waste: float) -> list[tuple[int, ...]]:
    """By the words of the docstring: rounded up to a multiple, no idle outer iteration."""
    largest = math.floor(extent * (1 + Fraction(max_waste)))
    multiples = range(1, max(64, bound or 0) + 1)
    padded = {-(-extent // grain) * grain for grain in multiples}
    found = []
    for inner in itertools.product(range(1, largest + 1), repeat=n - 1):
        tile = math.prod(inner)
        outermost = -(-extent // tile)
        if outermost * tile > largest or outermost * tile not in padded:
            continue
        if bound is None or inner[-1] <= bound:
            found.append((outermost, *inner))
    return found


@given(
    st.integers(1, 60),
    st.integers(2, 3),
    st.none() | st.integers(1, 70),
    st.sampled_from([0.0, 0.1, 0.25, 1.0]),
    st.integers(0, 9),
)
@settings(max_examples=60, deadline=None)
def test_the_support_is_every_tile_that_wastes_little(
    extent: int, n: int, bound: int | None, max_waste: float, penalty: int
) -> None:
    tile = ImperfectTile(extent, n, bound, max_waste, waste_penalty=penalty)
    expected = all_tiles(extent, n, bound, max_waste)
    assert list(tile.support()) == sorted(expected, key=lambda d: d[::-1])
    assert tile.size() == len(expected)
    masses = {d: Fraction(extent, math.prod(d)) ** penalty for d in expected}
    total = sum(masses.values())
    for d, mass in masses.items():
        assert math.exp(tile.log_prob(d)) == pytest.approx(float(mass / total), rel=1e-6)


@given(st.integers(1, 3000), st.integers(2, 4), st.none() | st.integers(1, 64))
@settings(max_examples=50, deadline=None)
def test_perfect_tiles_are_among_them(extent: int, n: int, bound: int | None) -> None:
    imperfect = ImperfectTile(extent, n, bound)
    perfect = PerfectTile(extent, n, bound)
    assert all(imperfect.permits(d) for d in itertools.islice(perfect.support(), 200))
    assert list(ImperfectTile(extent, n, bound, max_waste=0).support()) == list(perfect.support())


@given(st.integers(1, 5000), st.integers(2, 5), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_only_the_last_outer_iteration_is_cut_short(extent: int, n: int, seed: int) -> None:
    d = ImperfectTile(extent, n, max_innermost_factor=64).sample(random.Random(seed))
    inner = math.prod(d[1:])
    assert (d[0] - 1) * inner < extent <= d[0] * inner <= 1.25 * extent


def test_every_innermost_factor_up_to_the_bound_is_possible() -> None:
    tile = ImperfectTile(1000, n=2, max_innermost_factor=100)
    assert {d[1] for d in tile.support()} == set(range(1, 101))
    assert {d for d in tile.support() if d[1] in (16, 96)} == {(63, 16), (11, 96)}


def test_a_prime_extent_takes_vectors() -> None:
    tile = ImperfectTile(127, n=3, max_innermost_factor=32)
    assert tile.permits((4, 2, 16))
    assert tile.permits((127, 1, 1))
    assert not tile.permits((9, 1, 16)), "the ninth outer iteration would be idle"
    assert not tile.permits((7, 1, 16))
    assert not tile.permits((3, 2, 32)), "192 is half as much again"


def test_weights_and_waste_shape_the_probabilities() -> None:
    plain = ImperfectTile(127, n=2, waste_penalty=0)
    ratio = plain.log_prob((8, 16)) - plain.log_prob((127, 1))
    assert ratio == pytest.approx(0.0)
    penalised = ImperfectTile(127, n=2, weights={-1: {16: 5.0}}, waste_penalty=3)
    ratio = penalised.log_prob((8, 16)) - penalised.log_prob((127, 1))
    assert ratio == pytest.approx(math.log(5 * (127 / 128) ** 3))
    assert penalised.origin() == (8, 16)


def test_neighbours_step_over_what_wastes_too_much() -> None:
    tile = ImperfectTile(100, n=2, max_innermost_factor=64)
    assert set(tile.neighbours((7, 16))) == {(7, 15), (6, 17), (13, 8)}, "32 would waste 28%"
    assert set(tile.neighbours((2, 62))) == {(2, 61), (4, 31)}
    assert set(tile.neighbours((3, 41))) == {(3, 40), (2, 50)}, "42 to 49 would waste 26% and more"


def test_neighbours_move_primes_between_inner_levels() -> None:
    found = ImperfectTile(127, n=3).neighbours((4, 8, 4))
    assert {(4, 4, 8), (4, 16, 2)} <= set(found)


@pytest.mark.parametrize(
    ("tile", "misfit", "repaired"),
    [
        (ImperfectTile(100, 2), (6, 16), (7, 16)),
        (ImperfectTile(127, 2), (1, 64), (2, 64)),
        (ImperfectTile(127, 3, max_innermost_factor=8), (4, 2, 16), (8, 2, 8)),
        (ImperfectTile(100, 2), (1, 41.5), (100, 1)),
        (ImperfectTile(100, 2), "junk", (100, 1)),
        (ImperfectTile(96, 2, weights={-1: {8: 0.0}}), (12, 8), (11, 9)),
    ],
    ids=str,
)
def test_repair(tile: ImperfectTile, misfit: object, repaired: tuple[int, ...]) -> None:
    assert tile.repair(misfit) == repaired


def test_equal_priors_are_equal_values() -> None:
    assert ImperfectTile(96, 3, weights={2: {4: 2}}) == ImperfectTile(96, 3, weights={-1: {4: 2.0}})
    assert ImperfectTile(96, 3, max_waste=0) == ImperfectTile(96, 3, max_waste=0.0)
    assert ImperfectTile(7, 2, weights={1: {5: 9.0}}) == ImperfectTile(7, 2), "5 does not fit 7"
    assert ImperfectTile(96, 3) != ImperfectTile(96, 3, waste_penalty=0)
