"""Tile sizes that need not divide a loop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, cast

from schedlang.distributions._checks import MAX_EXTENT, MAX_LEVELS, as_weight, check_int, refuse
from schedlang.distributions.base import Decision, Distribution, Rng
from schedlang.distributions.registry import register_distribution
from schedlang.distributions.tiles import padded_moves as _padded_moves
from schedlang.distributions.tiles.level_weights import LevelWeights, WeightsLike, canonical_weights
from schedlang.distributions.tiles.padded_extents import (
    PaddedFactorizations,
    padded_extents,
    padded_factorizations,
)
from schedlang.distributions.tiles.tile_values import has_zero_weight, wanted_factors

_MAX_PENALTY = 64


@register_distribution
@dataclass(frozen=True, slots=True, repr=False)
class ImperfectTile(Distribution):
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
    or from 1 to ``max_innermost_factor`` if that is larger (at most 1024). Sampling and
    ``log_prob`` do not enumerate the support. DistributionError if no tile satisfies the bounds and
    the weights.
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
        check_int(owner, "extent", self.extent, 1, MAX_EXTENT)
        check_int(owner, "n", self.n, 2, MAX_LEVELS)
        check_int(owner, "waste_penalty", self.waste_penalty, 0, _MAX_PENALTY)
        bound = self.max_innermost_factor
        if bound is not None and (type(bound) is not int or bound < 1):
            refuse(owner, "max_innermost_factor", bound, "must be an int of at least 1, or None")
        waste = as_weight(owner, "max_waste", self.max_waste)
        if waste > 1.0:
            refuse(owner, "max_waste", self.max_waste, "must be a fraction of the extent, 0 to 1")
        object.__setattr__(self, "max_waste", waste)
        if self.weights is not None:
            canonical = canonical_weights(owner, self.weights, self._padded_extents(), self.n)
            object.__setattr__(self, "weights", canonical)
            untiled = (self.extent, *(1,) * (self.n - 1))
            if not self.permits(untiled) and not self._engine().total:
                refuse(
                    owner,
                    "weights",
                    canonical,
                    f"every tile of {self.extent} has a factor of weight 0",
                )

    def _padded_extents(self) -> tuple[int, ...]:
        return padded_extents(self.extent, self.max_innermost_factor, self.max_waste)

    def _engine(self) -> PaddedFactorizations:
        return padded_factorizations(
            self.extent,
            self.n,
            self.max_innermost_factor,
            self.max_waste,
            self.waste_penalty,
            cast("LevelWeights | None", self.weights),
        )

    def sample(self, rng: Rng) -> tuple[int, ...]:
        return self._engine().sample(rng)

    def permits(self, d: object) -> bool:
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
        if bound is not None and d[-1] > bound:
            return False
        return self.weights is None or not has_zero_weight(cast("LevelWeights", self.weights), d)

    def log_prob(self, d: object) -> float:
        if not self.permits(d):
            return -math.inf
        return self._engine().log_prob(cast("tuple[int, ...]", d))

    def size(self) -> int:
        return self._engine().count()

    def support(self) -> Iterator[tuple[int, ...]]:
        """Yield the tiles in lexicographic order, innermost factor most significant."""
        return self._engine().support()

    def neighbours(self, d: Decision) -> tuple[tuple[int, ...], ...]:
        """Return the tiles one step from ``d``.

        A step changes an inner factor to its next smaller or larger value, multiplies or divides it
        by 2 or 3, or moves one prime factor between two inner levels. The outermost factor is
        recomputed. The graph is connected unless weights of 0 separate parts of the support.
        """
        self.require(d)
        return _padded_moves.neighbours(self._engine(), cast("tuple[int, ...]", d))

    def propose(self, d: Decision, rng: Rng) -> tuple[tuple[int, ...], float]:
        """Resample one inner factor, or two with a fixed product.

        In 1 of 8 cases draw from the prior.
        """
        self.require(d)
        return _padded_moves.propose(self._engine(), cast("tuple[int, ...]", d), rng)

    def origin(self) -> tuple[int, ...]:
        """Return ``(extent, 1, ...)``, the untiled loop; with weights, the most probable tile."""
        if self.weights is None:
            return (self.extent, *(1,) * (self.n - 1))
        return self._engine().mode()

    def repair(self, d: object) -> tuple[int, ...]:
        """Keep the inner factors if they are permitted, else return the nearest permitted tile."""
        wanted = wanted_factors(d, self.n)
        kept = self._engine().complete(wanted[1:])
        return kept if self.permits(kept) else self._engine().repair(wanted)

    @property
    def n_outputs(self) -> int:
        return self.n
