"""Tile sizes of one loop: perfect, partitioned, and those that need not divide it.

A tile is the factors of one loop, outermost first.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeGuard, cast

from schedlang.distributions._parameters import MAX_EXTENT, MAX_LEVELS, as_weight, check_int, refuse
from schedlang.distributions.base import Decision, Distribution, Rng, register_distribution
from schedlang.distributions.factorizations import Factorizations, factorizations
from schedlang.distributions.padded_extents import (
    PaddedFactorizations,
    padded_extents,
    padded_factorizations,
)
from schedlang.distributions.tile_engine import (
    Factors,
    LevelWeights,
    TileEngine,
    WeightsLike,
    canonical_weights,
)

# -- What all distributions of tiles share --------------------------------------------------------


def is_factorization(d: object, extent: int, n: int) -> TypeGuard[tuple[int, ...]]:
    """Return whether ``d`` is a tuple of n plain positive ints with product ``extent``."""
    if type(d) is not tuple or len(d) != n:
        return False
    product = 1
    for factor in d:
        if type(factor) is not int or not 0 < factor <= extent:
            return False
        product *= factor
    return product == extent


def has_zero_weight(weights: LevelWeights, d: tuple[int, ...]) -> bool:
    """Return whether a factor of ``d`` has weight 0."""
    for level, pairs in weights:
        wanted = d[level]
        for factor, weight in pairs:
            if weight == 0.0 and factor == wanted:
                return True
    return False


def wanted_factors(d: object, n: int) -> tuple[int, ...]:
    """Read n positive ints from any object, innermost aligned; 1 for each unusable entry."""
    items: Iterable[object] = d[-n:] if isinstance(d, tuple | list) else ()
    wanted = tuple(item if type(item) is int and item > 0 else 1 for item in items)
    return (1,) * (n - len(wanted)) + wanted


class TileDistribution(Distribution):
    """n factors of a loop's extent with a prior by weights; a subclass gives the engine.

    Sampling and ``log_prob`` do not enumerate the support. They are exact and take microseconds
    once the counts for these parameters are known; equal distributions share the counts.
    """

    __slots__ = ()

    extent: int
    n: int
    weights: WeightsLike | None

    @abstractmethod
    def _engine(self) -> TileEngine:
        """Return the engine of these parameters."""

    @abstractmethod
    def _fits(self, d: object) -> bool:
        """Return whether ``d`` is a tile within the bounds, whatever its weight."""

    def _untiled(self) -> Factors:
        """Return the tile that leaves the loop as it is, as far as the bounds permit."""
        return (self.extent, *(1,) * (self.n - 1))

    def _check_levels(self, fewest: int = 1) -> None:
        """Require an extent and a number of factors in their ranges."""
        owner = type(self).__name__
        check_int(owner, "extent", self.extent, 1, MAX_EXTENT)
        check_int(owner, "n", self.n, fewest, MAX_LEVELS)

    def _check_innermost(self, bound: object) -> None:
        """Require a ``max_innermost_factor`` of at least 1, or None."""
        if bound is not None and (type(bound) is not int or bound < 1):
            problem = "must be an int of at least 1, or None"
            refuse(type(self).__name__, "max_innermost_factor", bound, problem)

    def _set_weights(self, extents: Sequence[int]) -> None:
        """Bring the weights into their canonical form; refuse those that exclude every tile.

        ``extents``: the products that tiles can have.
        """
        if self.weights is None:
            return
        owner = type(self).__name__
        canonical = canonical_weights(owner, self.weights, extents, self.n)
        object.__setattr__(self, "weights", canonical)
        if not self.permits(self._untiled()) and not self._engine().total:
            problem = f"every tile of {self.extent} has a factor of weight 0"
            refuse(owner, "weights", canonical, problem)

    @property
    def _levels(self) -> LevelWeights | None:
        return cast("LevelWeights | None", self.weights)

    def sample(self, rng: Rng) -> Factors:
        return self._engine().sample(rng)

    def permits(self, d: object) -> bool:
        if not self._fits(d):
            return False
        return self._levels is None or not has_zero_weight(self._levels, cast("Factors", d))

    def log_prob(self, d: object) -> float:
        if not self.permits(d):
            return -math.inf
        return self._engine().log_prob(cast("Factors", d))

    def size(self) -> int:
        return self._engine().count()

    def support(self) -> Iterator[Factors]:
        """Yield the tiles in lexicographic order, innermost factor most significant."""
        return self._engine().support()

    def neighbours(self, d: Decision) -> tuple[Factors, ...]:
        """Return the tiles one step from ``d``; the class says what a step is.

        The graph is connected unless weights of 0 separate parts of the support.
        """
        return self._engine().neighbours(self.require(d))

    def propose(self, d: Decision, rng: Rng) -> tuple[Factors, float]:
        """Redistribute the product of two levels; in 1 of 8 cases draw from the prior."""
        return self._engine().propose(self.require(d), rng)

    def origin(self) -> Factors:
        """Return the untiled loop, as far as bounds permit; with weights, the likeliest tile."""
        return self._untiled() if self.weights is None else self._engine().mode()

    def repair(self, d: object) -> Factors:
        """Keep the largest valid part of each factor, innermost first; the rest goes outermost."""
        return self._engine().repair(wanted_factors(d, self.n))

    def nearest(self, d: object) -> Factors:
        """Return the nearest factors in ratio, innermost first; the rest goes outermost."""
        if self.permits(d):
            return cast("Factors", d)
        return self._engine().nearest(wanted_factors(d, self.n))

    @property
    def n_outputs(self) -> int:
        return self.n


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class PerfectTile(TileDistribution):
    """n positive factors, outermost first, whose product is the extent of a loop.

    Parameters
    ----------
    extent: the loop's extent, 1 to 2**31 - 1.
    n: number of factors, 1 to 16.
    max_innermost_factor: upper bound of the last factor; None disables it.
    weights: a prior: level (0 is outermost, -1 innermost) -> factor -> weight >= 0. P(d) is
        proportional to the product of the weights of its factors; a factor that is not listed has
        weight 1. None gives the uniform distribution.

    A step of a descent moves one prime factor to another level. If weights of 0 leave gaps in the
    support, it may also go to the next permitted split of any two levels. DistributionError if no
    tile satisfies the bound and the weights.
    """

    kind: ClassVar[str] = "perfect_tile"

    extent: int
    n: int
    max_innermost_factor: int | None = None
    weights: WeightsLike | None = None

    def __post_init__(self) -> None:
        self._check_levels()
        bound = self.max_innermost_factor
        self._check_innermost(bound)
        if bound is not None and self.n == 1 and bound < self.extent:
            refuse(
                "PerfectTile",
                "max_innermost_factor",
                bound,
                f"one factor must be the whole extent {self.extent}; raise the bound or use n=2",
            )
        self._set_weights((self.extent,))

    def _engine(self) -> Factorizations:
        return factorizations(self.extent, self.n, self.max_innermost_factor, 0, 1, self._levels)

    def _fits(self, d: object) -> bool:
        if not is_factorization(d, self.extent, self.n):
            return False
        bound = self.max_innermost_factor
        return bound is None or d[-1] <= bound


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class PartitionedTile(TileDistribution):
    """n factors with product ``extent`` whose inner product is a multiple of a given factor.

    TVM's ``sample_partitioned_tile``: with ``partition_pos=2`` and ``innerpart_factor=16`` the
    product of levels 2, 3, ... is a multiple of 16 (the size of a tensor intrinsic, say).

    Parameters
    ----------
    extent: the loop's extent, 1 to 2**31 - 1; a multiple of ``innerpart_factor``.
    n: number of factors, 1 to 16.
    partition_pos: the first inner level, 0 to n - 1. At 0 the inner part is the whole extent.
    innerpart_factor: divisor of the product of the inner levels.
    weights: a prior, as for PerfectTile.

    A step of a descent is one of PerfectTile. The untiled loop has the factor ``innerpart_factor``
    at ``partition_pos`` and the rest outermost. DistributionError if the factor does not divide the
    extent (TVM continues with a tile of -1) or the weights exclude every tile.
    """

    kind: ClassVar[str] = "partitioned_tile"

    extent: int
    n: int
    partition_pos: int
    innerpart_factor: int
    weights: WeightsLike | None = None

    def __post_init__(self) -> None:
        owner = "PartitionedTile"
        self._check_levels()
        check_int(owner, "partition_pos", self.partition_pos, 0, self.n - 1)
        check_int(owner, "innerpart_factor", self.innerpart_factor, 1, MAX_EXTENT)
        if self.extent % self.innerpart_factor:
            refuse(
                owner,
                "innerpart_factor",
                self.innerpart_factor,
                f"must divide the extent {self.extent}; pad the loop or choose another factor",
            )
        self._set_weights((self.extent,))

    def _engine(self) -> Factorizations:
        return factorizations(
            self.extent, self.n, None, self.partition_pos, self.innerpart_factor, self._levels
        )

    def _untiled(self) -> tuple[int, ...]:
        factors = [1] * self.n
        factors[self.partition_pos] = self.innerpart_factor
        factors[0] *= self.extent // self.innerpart_factor
        return tuple(factors)

    def _fits(self, d: object) -> bool:
        if not is_factorization(d, self.extent, self.n):
            return False
        return math.prod(d[self.partition_pos :]) % self.innerpart_factor == 0


_MAX_PENALTY = 64


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class ImperfectTile(TileDistribution):
    """n positive factors, outermost first, whose product covers the extent of a loop.

    The inner factors are free within ``max_waste``. The outermost factor is the extent divided by
    their product, rounded up, so only the last outer iteration can be incomplete. An extent of 127,
    a prime that PerfectTile cannot divide, has the tiles (16, 8) and (8, 16). The support contains
    every perfect tile with the same bound.

    Parameters
    ----------
    extent: the loop's extent, 1 to 2**31 - 1.
    n: number of factors, 2 to 16.
    max_innermost_factor: upper bound of the last factor; None disables it.
    max_waste: maximum padding as a fraction of the extent, 0 to 1: the product is at most
        ``1 + max_waste`` times the extent. 0 gives the perfect tiles.
    weights: a prior over factors by level, as for PerfectTile.
    waste_penalty: exponent from 0 to 64; P(d) is divided by (product / extent) to this power. At 8,
        a tile with 10% padding weighs 0.47 times one without padding.

    The products in the support are the extent rounded up to a multiple of a number from 1 to 64,
    or from 1 to ``max_innermost_factor`` if that is larger (at most 1024). A step of a descent
    changes an inner factor to its next smaller or larger value, multiplies or divides it by 2 or 3,
    or moves one prime factor between two inner levels; the outermost factor is recomputed. A
    proposal resamples one inner factor, or two with a fixed product. DistributionError if no tile
    satisfies the bounds and the weights.
    """

    kind: ClassVar[str] = "imperfect_tile"

    extent: int
    n: int
    max_innermost_factor: int | None = None
    max_waste: float = 0.25
    weights: WeightsLike | None = None
    waste_penalty: int = 8

    def __post_init__(self) -> None:
        owner = "ImperfectTile"
        self._check_levels(fewest=2)
        check_int(owner, "waste_penalty", self.waste_penalty, 0, _MAX_PENALTY)
        self._check_innermost(self.max_innermost_factor)
        waste = as_weight(owner, "max_waste", self.max_waste)
        if waste > 1.0:
            refuse(owner, "max_waste", self.max_waste, "must be a fraction of the extent, 0 to 1")
        object.__setattr__(self, "max_waste", waste)
        self._set_weights(self._padded_extents())

    def _padded_extents(self) -> tuple[int, ...]:
        return padded_extents(self.extent, self.max_innermost_factor, self.max_waste)

    def _engine(self) -> PaddedFactorizations:
        return padded_factorizations(
            self.extent,
            self.n,
            self.max_innermost_factor,
            self.max_waste,
            self.waste_penalty,
            self._levels,
        )

    def _fits(self, d: object) -> bool:
        if type(d) is not tuple or len(d) != self.n:
            return False
        padded = self._padded_extents()
        largest = padded[-1]
        if any(type(factor) is not int or not 0 < factor <= largest for factor in d):
            return False
        product = math.prod(d)
        if product not in padded or product - product // d[0] >= self.extent:
            return False
        bound = self.max_innermost_factor
        return bound is None or d[-1] <= bound
