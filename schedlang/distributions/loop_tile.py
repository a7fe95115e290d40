"""Tile sizes of one loop: perfect, partitioned, and those that need not divide it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from schedlang.distributions._checks import MAX_EXTENT, as_weight, check_int, refuse
from schedlang.distributions.registry import register_distribution
from schedlang.distributions.tiles.factorizations import Factorizations, factorizations
from schedlang.distributions.tiles.level_weights import WeightsLike
from schedlang.distributions.tiles.padded_extents import (
    PaddedFactorizations,
    padded_extents,
    padded_factorizations,
)
from schedlang.distributions.tiles.tile_distribution import TileDistribution, is_factorization


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
