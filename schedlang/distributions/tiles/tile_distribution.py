"""What all distributions of tiles share: a tile is the factors of one loop, outermost first."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeGuard, cast

from schedlang.distributions._checks import MAX_EXTENT, MAX_LEVELS, check_int, refuse
from schedlang.distributions.base import Decision, Distribution, Rng
from schedlang.distributions.tiles.level_weights import LevelWeights, WeightsLike, canonical_weights
from schedlang.distributions.tiles.tile_engine import Factors, TileEngine


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
