"""Tile sizes that divide a loop exactly."""

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
class PerfectTile(Distribution):
    """n positive factors, outermost first, whose product is the extent of a loop.

    Parameters
    ----------
    extent: the loop's extent, 1 to 2**31 - 1.
    n: number of factors, 1 to 16.
    max_innermost_factor: upper bound of the last factor; None disables it.
    weights: a prior: level (0 is outermost, -1 innermost) -> factor -> weight >= 0. P(d) is
        proportional to the product of the weights of its factors; a factor that is not listed has
        weight 1. None gives the uniform distribution.

    Sampling and ``log_prob`` do not enumerate the support. They are exact and take microseconds
    once the counts for these parameters are known; equal distributions share the counts.
    DistributionError if no tile satisfies the bound and the weights.
    """

    kind: ClassVar[str] = "perfect_tile"

    extent: int
    n: int
    max_innermost_factor: int | None = None
    weights: WeightsLike | None = None

    def __post_init__(self) -> None:
        owner = "PerfectTile"
        check_int(owner, "extent", self.extent, 1, MAX_EXTENT)
        check_int(owner, "n", self.n, 1, MAX_LEVELS)
        bound = self.max_innermost_factor
        if bound is not None:
            if type(bound) is not int or bound < 1:
                refuse(
                    owner, "max_innermost_factor", bound, "must be an int of at least 1, or None"
                )
            if self.n == 1 and bound < self.extent:
                refuse(
                    owner,
                    "max_innermost_factor",
                    bound,
                    f"one factor must be the whole extent {self.extent}; raise the bound or use "
                    "n=2",
                )
        if self.weights is not None:
            canonical = canonical_weights(owner, self.weights, (self.extent,), self.n)
            object.__setattr__(self, "weights", canonical)
            untiled = (self.extent, *(1,) * (self.n - 1))
            if not self.permits(untiled) and self.size() == 0:
                refuse(
                    owner,
                    "weights",
                    canonical,
                    f"every tile of {self.extent} has a factor of weight 0",
                )

    def _engine(self) -> Factorizations:
        weights = cast("LevelWeights | None", self.weights)
        return factorizations(self.extent, self.n, self.max_innermost_factor, 0, 1, weights)

    def sample(self, rng: Rng) -> tuple[int, ...]:
        return self._engine().sample(rng)

    def permits(self, d: object) -> bool:
        if not is_factorization(d, self.extent, self.n):
            return False
        bound = self.max_innermost_factor
        if bound is not None and d[-1] > bound:
            return False
        return self.weights is None or not has_zero_weight(cast("LevelWeights", self.weights), d)

    def log_prob(self, d: object) -> float:
        if not self.permits(d):
            return -math.inf
        return self._engine().log_prob(cast("tuple[int, ...]", d))

    def size(self) -> int:
        weights = cast("LevelWeights | None", self.weights)
        return count_factorizations(self.extent, self.n, self.max_innermost_factor, 0, 1, weights)

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
        """Return ``(extent, 1, ...)``, the untiled loop; with weights, the most probable tile."""
        if self.weights is None:
            return (self.extent, *(1,) * (self.n - 1))
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
