"""Tile sizes that divide a loop exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from schedlang.distributions._checks import refuse
from schedlang.distributions.registry import register_distribution
from schedlang.distributions.tiles.factorizations import Factorizations, factorizations
from schedlang.distributions.tiles.level_weights import WeightsLike
from schedlang.distributions.tiles.tile_distribution import TileDistribution
from schedlang.distributions.tiles.tile_values import is_factorization


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
