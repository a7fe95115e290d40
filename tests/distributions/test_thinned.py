"""A few decisions of other distributions: the contract, and what of them is kept."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest

from schedlang.distributions import (
    Categorical,
    ComputeLocation,
    Distribution,
    ImperfectTile,
    IntRange,
    PerfectTile,
    Permutation,
    Subset,
    Thinned,
    distribution_from_json,
    distribution_to_json,
)
from schedlang.distributions.thinned import points_for, thinned_by
from schedlang.errors import DistributionError
from schedlang.testing.distributions import DistributionContract

UNLIKELY = Categorical((1, 2, 3, 4), (1e-320, 1e300, 0, 1e300))


class TestThinned(DistributionContract):
    @pytest.fixture(
        params=[
            Thinned(PerfectTile(96, n=2, weights={-1: {8: 4.0, 16: 8.0, 3: 0.25}}), 5),
            Thinned(PerfectTile(30, n=3, weights={0: {2: 0.0, 3: 0.5}, 1: {1: 0.0}}), 4, seed=7),
            Thinned(PerfectTile(735_134_400, n=8), 9),
            Thinned(ImperfectTile(127, n=2, max_innermost_factor=16), 7),
            Thinned(ImperfectTile(2_147_483_647, n=3, max_innermost_factor=64), 6),
            Thinned(UNLIKELY, 3),
            Thinned(Categorical(tuple(range(300))), 40),
            Thinned(ComputeLocation((4, 0, -1), (1, 2, 4)), 2),
            Thinned(IntRange(-(2**60), 2**60), 6),
            Thinned(Permutation(5), 7),
            Thinned(Permutation(200), 4),
            Thinned(Subset((5, 4, 3, 2, 1), min_size=2, max_size=2), 4),
            Thinned(PerfectTile(12, n=2), 1),
            thinned_by(PerfectTile(7, n=2), 0.9, 3),
        ],
        ids=lambda one: f"{one.points} of {one.base}",
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


def test_what_is_kept_is_in_the_base_with_its_origin() -> None:
    base = PerfectTile(64, n=3, weights={-1: {8: 4.0, 16: 8.0}})
    thin = Thinned(base, 9)
    some = list(thin.support())
    assert len(some) == 9 and base.origin() in some
    assert some == sorted(decision for decision in base.support() if decision in some)
    for decision in some:
        assert thin.outputs(decision) == base.outputs(decision)


def test_all_samples_together_are_as_likely_as_the_base() -> None:
    """What is rare is in few of them, and counts for more there than its probability."""
    base = Categorical((0, 1, 2, 3, 4, 5), (0.6, 0.2, 0.1, 0.06, 0.03, 0.01))
    found = Counter[int]()
    seeds = 4_000
    for seed in range(seeds):
        thin = Thinned(base, 3, seed)
        for decision in thin.support():
            found[decision] += math.exp(thin.log_prob(decision))
    for decision, probability in zip(base.candidates, base.probabilities(), strict=True):
        assert found[decision] / seeds == pytest.approx(probability, abs=0.07)
    whole = Thinned(base, 6)
    assert all(whole.log_prob(one) == pytest.approx(base.log_prob(one)) for one in base.support())
    rare = Thinned(IntRange(0, 10**15), 4)
    assert len({round(rare.log_prob(one), 9) for one in rare.support()}) == 1


def test_a_seed_chooses_and_points_limit() -> None:
    base = PerfectTile(96, n=3)
    one, same, other = Thinned(base, 8), Thinned(base, 8), Thinned(base, 8, seed=1)
    assert list(one.support()) == list(same.support()) != list(other.support())
    assert list(Thinned(base, 65_536).support()) == sorted(base.support())


def test_likely_decisions_are_kept() -> None:
    """Each seed keeps it but for one in 10^15: 9 of 10 draws give it, until two others came."""
    base = Categorical(tuple(range(100)), tuple(1000.0 if n == 37 else 1.0 for n in range(100)))
    assert all(37 in list(Thinned(base, 3, seed).support()) for seed in range(20))


def test_what_is_near_in_the_base_is_near() -> None:
    base = PerfectTile(64, n=3)
    thin = Thinned(base, 12)
    some = set(thin.support())
    for decision in some:
        assert some.intersection(base.neighbours(decision)) <= set(thin.neighbours(decision))
    numbers = Thinned(IntRange(0, 100), 5)
    assert numbers.repair(41) == min(numbers.support(), key=lambda one: abs(int(str(one)) - 41))


def test_what_cannot_be_hashed_is_no_decision() -> None:
    assert Thinned(PerfectTile(12, n=2), 3).permits(([], {})) is False
    assert Thinned(IntRange(0, 9), 3).permits({}) is False


# -- in place of another distribution -------------------------------------------------------------


def test_over_another_distribution_it_keeps_as_many_as_its_exponent_says() -> None:
    thin = thinned_by(PerfectTile(64, n=3), 0.5, 3)
    assert thin.size() == 5  # of 28
    assert thin.over(PerfectTile(4096, n=3)) == thinned_by(PerfectTile(4096, n=3), 0.5, 3)
    small = thin.over(PerfectTile(1, n=3))
    assert small.size() == 1
    assert small.over(PerfectTile(64, n=3)) == thin, "a support that is whole says how to thin"


def test_over_another_distribution_it_keeps_its_points_without_an_exponent() -> None:
    thin = Thinned(PerfectTile(64, n=3), 5, seed=2)
    assert thin.over(PerfectTile(128, n=3)) == Thinned(PerfectTile(128, n=3), 5, seed=2)
    assert thin.over(PerfectTile(7, n=2)) == PerfectTile(7, n=2)
    own = Thinned(IntRange(0, 9), 7)
    assert thin.over(own) is own, "a program may draw from a thin one itself"
    assert PerfectTile(64, n=3).over(IntRange(0, 9)) == IntRange(0, 9)


@pytest.mark.parametrize(
    ("size", "exponent", "points"),
    [(1, 0.7, 1), (100, 0.0, 1), (100, 0.5, 10), (100, 1.0, 100), (10**9, 1.0, 65_536)]
    + [(math.factorial(1024), 0.9, 65_536)],
)
def test_numbers_of_points(size: int, exponent: float, points: int) -> None:
    assert points_for(size, exponent) == points


# -- errors and storage ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"points": 0}, "points=0"),
        ({"points": True}, "points=True"),
        ({"points": 65_537}, "points=65537"),
        ({"seed": -1}, "seed=-1"),
        ({"exponent": 1.5}, "exponent=1.5"),
        ({"exponent": 1}, "exponent=1"),
        ({"exponent": math.nan}, "exponent=nan"),
        ({"base": Thinned(IntRange(0, 9), 3)}, "give a distribution to thin"),
        ({"base": 3}, "give a distribution to thin"),
    ],
    ids=str,
)
def test_wrong_arguments(change: dict[str, object], message: str) -> None:
    with pytest.raises(DistributionError, match=message):
        replace(Thinned(IntRange(0, 9), 3), **change)  # type: ignore[arg-type]


def test_stored_ones_without_an_exponent_are_read() -> None:
    thin = Thinned(IntRange(0, 9), 3, seed=5)
    stored = dict(distribution_to_json(thin))
    assert "exponent" not in stored
    assert distribution_from_json(stored) == thin
    for wrong in ({**stored, "more": 1}, {k: v for k, v in stored.items() if k != "points"}):
        with pytest.raises(DistributionError, match="needs base, points and seed"):
            distribution_from_json(wrong)
