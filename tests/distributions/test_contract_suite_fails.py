"""The contract suite itself: each broken distribution fails the test that is about it."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from schedlang.distributions import Decision, Distribution, Rng, register_distribution
from schedlang.testing.distributions import DistributionContract


@dataclass(frozen=True)
class Die(Distribution):
    """Right, as the base of the broken ones."""

    kind: ClassVar[str] = "test.die"
    sides: int = 6

    def sample(self, rng: Rng) -> int:
        return int(rng.random() * self.sides)

    def log_prob(self, d: Any) -> float:
        return -math.log(self.sides) if type(d) is int and 0 <= d < self.sides else -math.inf

    def support(self) -> Iterator[int]:
        return iter(range(self.sides))


class LoadedSample(Die):
    def sample(self, rng: Rng) -> int:
        return min(int(rng.random() * (self.sides + 1)), self.sides - 1)


class SampleOutside(Die):
    def sample(self, rng: Rng) -> int:
        return int(rng.random() * (self.sides + 1))


class NotNormalised(Die):
    def log_prob(self, d: Any) -> float:
        return Die.log_prob(self, d) + 1e-6


class BoolsPermitted(Die):
    def log_prob(self, d: Any) -> float:
        return -math.log(self.sides) if d in range(self.sides) else -math.inf


class RaisesOnText(Die):
    def log_prob(self, d: Any) -> float:
        return -math.log(self.sides) if 0 <= d < self.sides else -math.inf


class RepeatsInSupport(Die):
    def support(self) -> Iterator[int]:
        return iter((0, *range(self.sides)))


class WrongSize(Die):
    def size(self) -> int:
        return self.sides + 1


class PermitsLess(Die):
    def permits(self, d: object) -> bool:
        return d != 1 and Die.permits(self, d)


class OneWayNeighbours(Die):
    def neighbours(self, d: Decision) -> tuple[int, ...]:
        self.require(d)
        return (d + 1,) if d + 1 < self.sides else ()  # type: ignore[operator]


class NeighbourOfItself(Die):
    def neighbours(self, d: Decision) -> tuple[Decision, ...]:
        return (d, *Die.neighbours(self, d))


class Islands(Die):
    def neighbours(self, d: Decision) -> tuple[int, ...]:
        self.require(d)
        return (d ^ 1,)  # type: ignore[operator]


class WrongRatio(Die):
    """Steps within the range are half as likely from the ends, and the ratio does not say so."""

    def propose(self, d: Decision, rng: Rng) -> tuple[int, float]:
        self.require(d)
        adjacent = self.neighbours(d)
        return adjacent[int(rng.random() * len(adjacent))], 0.0  # type: ignore[return-value]


class NeverLeaves(Die):
    def propose(self, d: Decision, rng: Rng) -> tuple[Decision, float]:
        self.require(d)
        return (d ^ 1 if rng.random() < 0.5 else d), 0.0  # type: ignore[operator]


class ForgetfulRepair(Die):
    def repair(self, d: object) -> int:
        return 0


class UnseededSample(Die):
    def sample(self, rng: Rng) -> int:
        return random.SystemRandom().randrange(self.sides)


class LooseReading(Die):
    @classmethod
    def from_json(cls, stored: Any) -> LooseReading:
        return cls(6)


class WrongShape(Die):
    def outputs(self, d: Decision) -> tuple[int, ...]:
        return (0,) * d  # type: ignore[operator]


BROKEN: list[tuple[type[Die], str]] = [
    (LoadedSample, "test_samples_fit_the_probabilities"),
    (SampleOutside, "test_samples_are_in_the_support"),
    (NotNormalised, "test_probabilities_sum_to_one"),
    (BoolsPermitted, "test_what_is_no_decision_is_outside_the_support"),
    (RaisesOnText, "test_permits_and_log_prob_agree_on_anything"),
    (RepeatsInSupport, "test_support_is_in_one_order_without_repeats"),
    (WrongSize, "test_size_counts_the_support"),
    (PermitsLess, "test_permits_and_log_prob_agree_on_anything"),
    (OneWayNeighbours, "test_neighbours_are_symmetric"),
    (NeighbourOfItself, "test_neighbours_are_others_in_the_support"),
    (Islands, "test_neighbours_connect_the_support"),
    (WrongRatio, "test_proposal_ratio_is_that_of_the_mechanism"),
    (NeverLeaves, "test_proposals_reach_the_support"),
    (ForgetfulRepair, "test_repair_keeps_what_is_permitted"),
    (UnseededSample, "test_equal_seeds_give_equal_draws"),
    (LooseReading, "test_reading_is_strict"),
    (WrongShape, "test_outputs_have_one_shape"),
]


def passes(test: str, made: type[Die], *arguments: random.Random) -> bool:
    """Return whether a distribution passes a test of the suite."""
    try:
        getattr(DistributionContract(), test)(made(), *arguments)
    except (AssertionError, TypeError, pytest.fail.Exception):
        return False
    return True


@pytest.mark.parametrize(("broken", "test"), BROKEN, ids=[cls.__name__ for cls, _ in BROKEN])
def test_broken_distribution_fails(broken: type[Die], test: str) -> None:
    broken.kind = f"test.broken.{broken.__name__}"
    register_distribution(broken)
    arguments = [random.Random(1)] if test == "test_samples_are_in_the_support" else []
    assert not passes(test, broken, *arguments)


@pytest.mark.parametrize("test", sorted({test for _, test in BROKEN}))
def test_the_right_one_passes(test: str) -> None:
    register_distribution(Die)
    arguments = [random.Random(1)] if test == "test_samples_are_in_the_support" else []
    assert passes(test, Die, *arguments)
