"""PerfectTile and PartitionedTile against brute force, and at sizes that cannot be listed."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given, settings, strategies as st

from schedlang.distributions import PartitionedTile, PerfectTile
from schedlang.testing.distributions import FALSE_FAILURE_RATE, fit_p_value


def all_factorizations(extent: int, n: int) -> list[tuple[int, ...]]:
    factors = [f for f in range(1, extent + 1) if extent % f == 0]
    outer = itertools.product(factors, repeat=n - 1)
    return [(*d, extent // math.prod(d)) for d in outer if extent % math.prod(d) == 0]


level_weights = st.dictionaries(
    st.integers(0, 2),
    st.dictionaries(
        st.integers(1, 24), st.sampled_from([0.0, 0.1, 1.0, 2.5, 1e-200, 1e200]), max_size=4
    ),
    max_size=3,
)


@given(st.integers(1, 200), st.integers(1, 4), st.none() | st.integers(1, 40))
@settings(max_examples=150, deadline=None)
def test_perfect_tile_is_uniform_over_all_factorizations(
    extent: int, n: int, bound: int | None
) -> None:
    expected = [d for d in all_factorizations(extent, n) if bound is None or d[-1] <= bound]
    if not expected:
        return
    tile = PerfectTile(extent, n, max_innermost_factor=bound)
    assert list(tile.support()) == sorted(expected, key=lambda d: d[::-1])
    assert tile.size() == len(expected)
    assert tile.log_prob(expected[0]) == pytest.approx(-math.log(len(expected)))
    assert tile.origin() == next(tile.support()) == (extent, *(1,) * (n - 1))


@given(
    st.sampled_from([1, 2, 6, 8, 12, 24, 36]),
    st.integers(0, 2),
    st.sampled_from([1, 2, 3, 4, 6]),
    level_weights,
)
@settings(max_examples=200, deadline=None)
def test_tiles_weigh_each_factorization_by_its_factors(
    extent: int, partition_pos: int, inner: int, weights: dict[int, dict[int, float]]
) -> None:
    inner = math.gcd(inner, extent)

    def log_weight(d: tuple[int, ...]) -> float:
        if math.prod(d[partition_pos:]) % inner:
            return -math.inf
        values = [weights.get(level, {}).get(f, 1.0) for level, f in enumerate(d)]
        return -math.inf if 0.0 in values else math.fsum(map(math.log, values))

    everything = all_factorizations(extent, 3)
    expected = {d: log_weight(d) for d in everything if log_weight(d) > -math.inf}
    if not expected:
        with pytest.raises(ValueError, match="weight 0"):
            PartitionedTile(extent, 3, partition_pos, inner, weights=weights)
        return
    tile = PartitionedTile(extent, 3, partition_pos, inner, weights=weights)
    largest = max(expected.values())
    log_total = largest + math.log(math.fsum(math.exp(w - largest) for w in expected.values()))
    assert set(tile.support()) == set(expected)
    assert tile.size() == len(expected)
    for d in everything:
        if d in expected:
            assert tile.log_prob(d) == pytest.approx(expected[d] - log_total, abs=1e-9)
        else:
            assert not tile.permits(d)
    assert tile.log_prob(tile.origin()) == pytest.approx(largest - log_total, abs=1e-9)
    if inner == 1:
        perfect = PerfectTile(extent, 3, weights=weights)
        assert list(perfect.support()) == list(tile.support())
        assert perfect.log_prob(tile.origin()) == tile.log_prob(tile.origin())


@given(
    st.integers(1, 300),
    st.lists(st.integers(-3, 400), max_size=5).map(tuple),
    st.none() | st.integers(1, 20),
)
@settings(max_examples=200, deadline=None)
def test_repair_keeps_the_innermost_factor_as_far_as_it_divides(
    extent: int, wanted: tuple[int, ...], bound: int | None
) -> None:
    repaired = PerfectTile(extent, 3, max_innermost_factor=bound).repair(wanted)
    assert math.prod(repaired) == extent
    asked = max(wanted[-1], 1) if wanted else 1
    allowed = [f for f in range(1, extent + 1) if extent % f == 0 and f <= (bound or extent)]
    assert math.gcd(repaired[-1], asked) == max(math.gcd(f, asked) for f in allowed)


def test_huge_tiles_are_counted_drawn_and_listed_without_listing() -> None:
    tile = PerfectTile(2**30, n=8)
    assert tile.size() == math.comb(30 + 7, 7)
    assert PerfectTile(2**10 * 3**5 * 5**4, n=8).size() == (
        math.comb(17, 7) * math.comb(12, 7) * math.comb(11, 7)
    )
    rng = random.Random(0)
    drawn = {tile.sample(rng) for _ in range(100)}
    assert len(drawn) == 100
    assert {tile.log_prob(d) for d in drawn} == {-math.log(math.comb(37, 7))}
    assert list(itertools.islice(tile.support(), 5)) == [
        (2**30, 1, 1, 1, 1, 1, 1, 1),
        (2**29, 2, 1, 1, 1, 1, 1, 1),
        (2**28, 4, 1, 1, 1, 1, 1, 1),
        (2**27, 8, 1, 1, 1, 1, 1, 1),
        (2**26, 16, 1, 1, 1, 1, 1, 1),
    ]


def test_every_level_of_a_huge_tile_gets_its_share() -> None:
    """Powers of 2 by level against the binomial formula; false-failure rate about 1e-6 a seed."""
    extent, n, n_draws = 2**6 * 3**3 * 5**2 * 7 * 11 * 13 * 17, 8, 6000
    tile = PerfectTile(extent, n)
    rng = random.Random(0)
    drawn = [tile.sample(rng) for _ in range(n_draws)]
    expected = [
        n_draws * math.comb(6 - k + n - 2, n - 2) / math.comb(6 + n - 1, n - 1) for k in range(7)
    ]
    for level in range(n):
        powers = [(d[level] & -d[level]).bit_length() - 1 for d in drawn]
        observed = [powers.count(k) for k in range(7)]
        assert fit_p_value(observed, expected) > FALSE_FAILURE_RATE / n


def test_bounded_count_is_the_sum_over_innermost_factors() -> None:
    tile = PerfectTile(2**30, n=8, max_innermost_factor=64)
    assert tile.size() == sum(math.comb(30 - k + 6, 6) for k in range(7))


def test_partitioned_count_is_the_sum_over_outer_parts() -> None:
    tile = PartitionedTile(2**20, n=5, partition_pos=2, innerpart_factor=2**4)
    assert tile.size() == sum((k + 1) * math.comb(20 - k + 2, 2) for k in range(17))


def test_prior_of_vector_widths_moves_the_mass() -> None:
    plain = PerfectTile(256, n=2)
    prior = PerfectTile(256, n=2, weights={-1: {16: 8.0, 32: 8.0}})
    assert plain.log_prob((16, 16)) == pytest.approx(math.log(1 / 9))
    assert prior.log_prob((16, 16)) == pytest.approx(math.log(8 / 23))
    assert prior.log_prob((256, 1)) == pytest.approx(math.log(1 / 23))
    assert prior.origin() == (16, 16)


def test_neighbours_move_one_prime_factor() -> None:
    assert set(PerfectTile(24, n=2).neighbours((6, 4))) == {(12, 2), (3, 8), (2, 12)}
    assert set(PerfectTile(8, n=3, max_innermost_factor=2).neighbours((4, 1, 2))) == {
        (2, 2, 2),
        (8, 1, 1),
        (4, 2, 1),
    }
    inner = PartitionedTile(16, n=2, partition_pos=1, innerpart_factor=4)
    assert set(inner.neighbours((4, 4))) == {(2, 8)}


def test_neighbours_step_over_factors_of_weight_zero() -> None:
    tile = PerfectTile(64, n=2, weights={1: {2: 0.0, 4: 0.0}})
    assert set(tile.neighbours((64, 1))) == {(8, 8)}
    assert set(tile.neighbours((8, 8))) == {(64, 1), (4, 16)}


@pytest.mark.parametrize(
    ("tile", "misfit", "repaired"),
    [
        (PerfectTile(96, 3), (8, 4, 4), (6, 4, 4)),
        (PerfectTile(96, 3), [8, 4, 64], (3, 1, 32)),
        (PerfectTile(128, 2, max_innermost_factor=16), (2, 64), (8, 16)),
        (PerfectTile(12, 2), (4, 9), (4, 3)),
        (PerfectTile(12, 3), (2, 2), (3, 2, 2)),
        (PerfectTile(12, 2), (2, 3, 2), (6, 2)),
        (PerfectTile(12, 2), "junk", (12, 1)),
        (PerfectTile(12, 2), (True, 3.0), (12, 1)),
        (PerfectTile(64, 2, weights={-1: {8: 0.0}}), (8, 8), (4, 16)),
        (PartitionedTile(96, 3, 1, 12), (24, 2, 2), (8, 6, 2)),
    ],
    ids=str,
)
def test_repair(
    tile: PerfectTile | PartitionedTile, misfit: object, repaired: tuple[int, ...]
) -> None:
    assert tile.repair(misfit) == repaired


def test_equal_priors_are_equal_values() -> None:
    assert PerfectTile(96, 3, weights={2: {4: 2}}) == PerfectTile(96, 3, weights={-1: {4: 2.0}})
    assert PerfectTile(96, 3, weights={0: {7: 5.0}, 1: {2: 1.0}}) == PerfectTile(96, 3)
    assert PerfectTile(96, 3) != PerfectTile(96, 3, max_innermost_factor=64)
    assert len({PerfectTile(96, 3, weights={2: {4: 2, 8: 3}}) for _ in range(3)}) == 1
