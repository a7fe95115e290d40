"""Tile sizes whose inner levels together are a multiple of a given factor."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from schedlang.distributions._checks import MAX_EXTENT, check_int, refuse
from schedlang.distributions.registry import register_distribution
from schedlang.distributions.tiles.factorizations import Factorizations, factorizations
from schedlang.distributions.tiles.level_weights import WeightsLike
from schedlang.distributions.tiles.tile_distribution import TileDistribution
from schedlang.distributions.tiles.tile_values import is_factorization


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
