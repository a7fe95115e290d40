"""The contract suite on each of our distributions and on two that a user would write.

The few instances of each class are its edges: one value, far more than can be listed, weights of
zero and of many magnitudes, a step that counts down.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from schedlang.distributions import (
    Categorical,
    ComputeLocation,
    Distribution,
    ImperfectTile,
    IntRange,
    PartitionedTile,
    PerfectTile,
    Permutation,
    Rng,
    Subset,
    register_distribution,
)
from schedlang.testing.distributions import DistributionContract

pytestmark = pytest.mark.slow


class TestPerfectTile(DistributionContract):
    @pytest.fixture(
        params=[
            PerfectTile(1, n=4),
            PerfectTile(735_134_400, n=4, max_innermost_factor=4),
            PerfectTile(30, n=3, weights={0: {2: 0.0, 3: 0.5}, 1: {1: 0.0}}),
            PerfectTile(24, n=2, weights={-1: {1: 0, 2: 0, 12: 0, 24: 0, 4: 1e-9, 6: 1e9}}),
        ],
        ids=str,
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


class TestPartitionedTile(DistributionContract):
    @pytest.fixture(
        params=[
            PartitionedTile(1_441_440, n=4, partition_pos=1, innerpart_factor=32),
            PartitionedTile(
                48, n=3, partition_pos=1, innerpart_factor=8, weights={0: {3: 5.0}, -1: {1: 0.0}}
            ),
        ],
        ids=str,
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


class TestImperfectTile(DistributionContract):
    @pytest.fixture(
        params=[
            ImperfectTile(1, n=2),
            ImperfectTile(127, n=3, max_innermost_factor=16, waste_penalty=0),
            ImperfectTile(11, n=2, max_waste=1, weights={1: {1: 0.0, 2: 0.0, 12: 1e-9, 4: 1e9}}),
            ImperfectTile(2_147_483_647, n=3, max_innermost_factor=64),
        ],
        ids=str,
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


class TestCategorical(DistributionContract):
    @pytest.fixture(
        params=[
            Categorical((5,)),
            Categorical((1, 2, 3, 4), (1e-320, 1e300, 0, 1e300)),
            Categorical(tuple(range(6000))),
        ],
        ids=str,
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


class TestComputeLocation(DistributionContract):
    @pytest.fixture(
        params=[
            ComputeLocation((4, 0, -1), (1, 2, 4)),
        ],
        ids=str,
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


class TestIntRange(DistributionContract):
    @pytest.fixture(
        params=[
            IntRange(10, -11, -3),
            IntRange(-(2**60), 2**60),
        ],
        ids=str,
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


class TestPermutation(DistributionContract):
    @pytest.fixture(params=[Permutation(4), Permutation(30)], ids=str)
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


class TestSubset(DistributionContract):
    @pytest.fixture(
        params=[
            Subset((9,), min_size=1),
            Subset((0, 1, 2, 3, 4), min_size=1, max_size=3),
            Subset(tuple(range(60)), min_size=3),
        ],
        ids=str,
    )
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]


@register_distribution
@dataclass(frozen=True)
class Zipf(Distribution):
    """As little as a user has to write: a kind, the fields and three methods."""

    kind: ClassVar[str] = "test.zipf"
    n: int

    def __post_init__(self) -> None:
        if type(self.n) is not int or not 1 <= self.n <= 1000:
            raise ValueError(f"n={self.n} must be from 1 to 1000")

    def sample(self, rng: Rng) -> int:
        left = rng.random() * math.fsum(1 / i for i in range(1, self.n + 1))
        for i in range(1, self.n):
            left -= 1 / i
            if left < 0.0:
                return i
        return self.n

    def log_prob(self, d: Any) -> float:
        if type(d) is not int or not 1 <= d <= self.n:
            return -math.inf
        return -math.log(d * math.fsum(1 / i for i in range(1, self.n + 1)))

    def support(self) -> Iterator[int]:
        return iter(range(1, self.n + 1))


@register_distribution
@dataclass(frozen=True)
class Corner(Distribution):
    """A user's own with tuples, in which one decision takes half."""

    kind: ClassVar[str] = "test.corner"
    sides: tuple[int, int]

    def __post_init__(self) -> None:
        if not all(type(side) is int and side > 0 for side in self.sides):
            raise ValueError("sides must be positive ints")

    def sample(self, rng: Rng) -> tuple[int, int]:
        if rng.random() < 0.5:
            return (0, 0)
        return (int(rng.random() * self.sides[0]), int(rng.random() * self.sides[1]))

    def log_prob(self, d: Any) -> float:
        if type(d) is not tuple or len(d) != 2 or not all(type(x) is int for x in d):
            return -math.inf
        if not all(0 <= x < side for x, side in zip(d, self.sides, strict=True)):
            return -math.inf
        return math.log((0.5 if d == (0, 0) else 0.0) + 0.5 / math.prod(self.sides))

    def support(self) -> Iterator[tuple[int, int]]:
        return ((x, y) for x in range(self.sides[0]) for y in range(self.sides[1]))


class TestUsersOwn(DistributionContract):
    @pytest.fixture(params=[Zipf(40), Corner((5, 3))], ids=str)
    def distribution(self, request: pytest.FixtureRequest) -> Distribution:
        return request.param  # type: ignore[no-any-return]
