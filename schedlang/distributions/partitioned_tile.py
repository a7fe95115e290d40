"""Tile sizes whose inner levels together are a multiple of a given factor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from schedlang.distributions._checks import MAX_EXTENT, MAX_LEVELS, check_int, refuse
from schedlang.distributions.base import Decision, Distribution, Rng
from schedlang.distributions.registry import register_distribution
from schedlang.distributions.tiles import factor_moves as _factor_moves
from schedlang.distributions.tiles.factorizations import (
    Factorizations,
    count_factorizations,
    factorizations,
)
from schedlang.distributions.tiles.level_weights import LevelWeights, WeightsLike, canonical_weights
from schedlang.distributions.tiles.tile_values import (
    has_zero_weight,
    is_factorization,
    wanted_factors,
)


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class PartitionedTile(Distribution):
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

    Sampling and ``log_prob`` do not enumerate the support. DistributionError if the factor does not
    divide the extent (TVM continues with a tile of -1) or the weights exclude every tile.
    """

    kind: ClassVar[str] = "partitioned_tile"

    extent: int
    n: int
    partition_pos: int
    innerpart_factor: int
    weights: WeightsLike | None = None

    def __post_init__(self) -> None:
        owner = "PartitionedTile"
        check_int(owner, "extent", self.extent, 1, MAX_EXTENT)
        check_int(owner, "n", self.n, 1, MAX_LEVELS)
        check_int(owner, "partition_pos", self.partition_pos, 0, self.n - 1)
        check_int(owner, "innerpart_factor", self.innerpart_factor, 1, MAX_EXTENT)
        if self.extent % self.innerpart_factor:
            refuse(
                owner,
                "innerpart_factor",
                self.innerpart_factor,
                f"must divide the extent {self.extent}; pad the loop or choose another factor",
            )
        if self.weights is not None:
            canonical = canonical_weights(owner, self.weights, (self.extent,), self.n)
            object.__setattr__(self, "weights", canonical)
            if not self.permits(self._untiled()) and self.size() == 0:
                refuse(
                    owner,
                    "weights",
                    canonical,
                    f"every tile of {self.extent} has a factor of weight 0",
                )

    def _engine(self) -> Factorizations:
        weights = cast("LevelWeights | None", self.weights)
        return factorizations(
            self.extent, self.n, None, self.partition_pos, self.innerpart_factor, weights
        )

    def _untiled(self) -> tuple[int, ...]:
        factors = [1] * self.n
        factors[self.partition_pos] = self.innerpart_factor
        factors[0] *= self.extent // self.innerpart_factor
        return tuple(factors)

    def sample(self, rng: Rng) -> tuple[int, ...]:
        return self._engine().sample(rng)

    def permits(self, d: object) -> bool:
        if not is_factorization(d, self.extent, self.n):
            return False
        if math.prod(d[self.partition_pos :]) % self.innerpart_factor:
            return False
        return self.weights is None or not has_zero_weight(cast("LevelWeights", self.weights), d)

    def log_prob(self, d: object) -> float:
        if not self.permits(d):
            return -math.inf
        return self._engine().log_prob(cast("tuple[int, ...]", d))

    def size(self) -> int:
        weights = cast("LevelWeights | None", self.weights)
        return count_factorizations(
            self.extent, self.n, None, self.partition_pos, self.innerpart_factor, weights
        )

    def support(self) -> Iterator[tuple[int, ...]]:
        """Yield the tiles in lexicographic order, innermost factor most significant."""
        return self._engine().support()

    def neighbours(self, d: Decision) -> tuple[tuple[int, ...], ...]:
        """Return the tiles with one prime factor moved to another level.

        If weights of 0 leave gaps in the support, also the next permitted split of every pair of
        levels. The graph is connected unless weights of 0 separate the support into parts that no
        change of two levels joins.
        """
        self.require(d)
        return _factor_moves.neighbours(self._engine(), cast("tuple[int, ...]", d))

    def propose(self, d: Decision, rng: Rng) -> tuple[tuple[int, ...], float]:
        """Redistribute the product of two levels; in 1 of 8 cases draw from the prior."""
        self.require(d)
        return _factor_moves.propose(self._engine(), cast("tuple[int, ...]", d), rng)

    def origin(self) -> tuple[int, ...]:
        """Return the inner part at ``partition_pos``, the rest outermost; with weights, a mode."""
        if self.weights is None:
            return self._untiled()
        return self._engine().mode()

    def repair(self, d: object) -> tuple[int, ...]:
        """Keep the largest valid part of each factor, innermost first; the rest goes outermost."""
        return self._engine().repair(wanted_factors(d, self.n))

    def nearest(self, d: object) -> tuple[int, ...]:
        """Return the nearest factors in ratio, innermost first; the rest goes outermost."""
        if self.permits(d):
            return cast("tuple[int, ...]", d)
        return self._engine().nearest(wanted_factors(d, self.n))

    @property
    def n_outputs(self) -> int:
        return self.n
