"""Tiles of a padded extent: one exact engine for each padded extent.

A tile (f0, f1, ...) that covers an extent without whole idle iterations is a factorization of a
padded extent P >= extent with f0 = ceil(extent / (f1 * f2 * ...)). The tiles of different padded
extents are therefore disjoint, and each part is counted, drawn and listed by ``factorizations``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from schedlang.distributions._checks import MAX_EXTENT
from schedlang.distributions._drawing import Rng, cumulate, pick_cumulated
from schedlang.distributions.tiles.divisors import divisors
from schedlang.distributions.tiles.factorizations import Factorizations
from schedlang.distributions.tiles.level_weights import LevelWeights

# Extents are rounded up to multiples of the numbers from 1 to _GRAINS, or from 1 to the bound of
# the innermost factor if that is larger, but at most to _MAX_GRAINS.
_GRAINS = 64
_MAX_GRAINS = 1024
# Precision, in bits, of the waste penalty factor of a padded extent.
_PENALTY_BITS = 32


@lru_cache(maxsize=4096)
def padded_extents(
    extent: int, max_innermost_factor: int | None, max_waste: float
) -> tuple[int, ...]:
    """Return the extent rounded up to multiples of small numbers, ascending, from ``extent``.

    The padding is at most ``max_waste`` times the extent.
    """
    limit = min(math.floor(extent * (1 + Fraction(max_waste))), MAX_EXTENT)
    grains = min(max(_GRAINS, max_innermost_factor or 0), _MAX_GRAINS)
    rounded = {-(-extent // grain) * grain for grain in range(1, grains + 1)}
    return tuple(sorted(padded for padded in rounded if padded <= limit))


@dataclass(frozen=True, slots=True)
class Part:
    """The tiles of one padded extent.

    Attributes
    ----------
    engine: counts, draws and lists the tiles.
    mass: integer weight of the padded extent, decreasing with its waste.
    scale: factor that makes the engine's integer weights comparable between parts.
    """

    engine: Factorizations
    mass: int
    scale: int


class PaddedFactorizations:
    """The weighted factorizations of all padded extents; immutable but for its engines' caches."""

    def __init__(
        self,
        extent: int,
        n: int,
        max_innermost_factor: int | None,
        max_waste: float,
        waste_penalty: int,
        weights: LevelWeights | None,
    ) -> None:
        self.extent = extent
        self.n = n
        engines: dict[int, Factorizations] = {}
        for padded in padded_extents(extent, max_innermost_factor, max_waste):
            own = _weights_within(weights, extent, padded)
            engine = Factorizations(padded, n, max_innermost_factor, 0, 1, own)
            if engine.total:
                engines[padded] = engine
        shift = max((engine.shift for engine in engines.values()), default=0)
        self.parts: dict[int, Part] = {}
        for padded, engine in engines.items():
            mass = max((extent**waste_penalty << _PENALTY_BITS) // padded**waste_penalty, 1)
            self.parts[padded] = Part(engine, mass, mass << (shift - engine.shift))
        totals = [part.engine.total * part.scale for part in self.parts.values()]
        self.total = sum(totals)
        self.log_total = -math.inf
        if self.total:
            self.log_total = math.log(self.total) - shift * math.log(2.0)
        self._padded = list(self.parts)
        self._cumulated = cumulate(totals) if totals else []

    def sample(self, rng: Rng) -> tuple[int, ...]:
        padded = self._padded[pick_cumulated(rng, self._cumulated)]
        return self.parts[padded].engine.sample(rng)

    def log_prob(self, d: Sequence[int]) -> float:
        """Return the natural logarithm of the probability of a permitted tile."""
        part = self.parts[math.prod(d)]
        log_weight = math.log(part.mass)
        for table, factor in zip(part.engine.log_weights, d, strict=True):
            log_weight += table.get(factor, 0.0)
        return log_weight - self.log_total

    def weight(self, d: Sequence[int]) -> int:
        """Return the integer weight of a permitted tile; ``total`` is the sum over all tiles."""
        part = self.parts[math.prod(d)]
        tables = part.engine.weight
        return part.scale * math.prod(tables[k][factor] for k, factor in enumerate(d))

    def support(self) -> Iterator[tuple[int, ...]]:
        """Yield all tiles in lexicographic order, innermost factor most significant."""
        parts = [part.engine.support() for part in self.parts.values()]
        return heapq.merge(*parts, key=lambda d: d[::-1])

    def count(self) -> int:
        """Return the number of tiles with a weight above 0."""
        return sum(
            Factorizations(padded, self.n, None, 0, 1, _only_zeros(part.engine, self.n)).total
            for padded, part in self.parts.items()
        )

    def mode(self) -> tuple[int, ...]:
        """Return the most probable tile, the first in support order in a tie."""
        modes = [part.engine.mode() for part in self.parts.values()]
        return min(modes, key=lambda d: (-self.weight(d), d[::-1]))

    def complete(self, inner: Sequence[int]) -> tuple[int, ...]:
        """Return the tile with these inner factors; the outermost factor covers the extent."""
        return (-(-self.extent // math.prod(inner)), *inner)

    def repair(self, wanted: Sequence[int]) -> tuple[int, ...]:
        """Return the tile that keeps most of the inner factors; in a tie, with the least waste."""

        def distance(d: tuple[int, ...]) -> float:
            pairs = zip(d[1:], wanted[1:], strict=True)
            return math.fsum(abs(math.log(kept) - math.log(asked)) for kept, asked in pairs)

        repaired = [part.engine.repair(wanted) for part in self.parts.values()]
        return min(repaired, key=lambda d: (round(distance(d), 9), math.prod(d)))


def _weights_within(weights: LevelWeights | None, extent: int, padded: int) -> LevelWeights | None:
    """Return the weights of the factors of ``padded``; 0 for outermost factors that idle.

    Each of the f0 outer iterations covers padded / f0 elements. All of them start inside the extent
    if padded / f0 > padded - extent.
    """
    tables = {level: dict(pairs) for level, pairs in weights or ()}
    if padded > extent:
        largest = (padded - 1) // (padded - extent)
        outermost = tables.setdefault(0, {})
        outermost.update({f: 0.0 for f in divisors(padded) if f > largest})
    kept = (
        (level, tuple((f, w) for f, w in sorted(table.items()) if padded % f == 0))
        for level, table in sorted(tables.items())
    )
    return tuple((level, pairs) for level, pairs in kept if pairs) or None


def _only_zeros(engine: Factorizations, n: int) -> LevelWeights | None:
    """Return the engine's weights of 0; all other factors have weight 1."""
    zeros = (
        (level, tuple((f, 0.0) for f, weight in sorted(engine.weight[level].items()) if not weight))
        for level in range(n)
    )
    return tuple((level, pairs) for level, pairs in zeros if pairs) or None


@lru_cache(maxsize=128)
def padded_factorizations(
    extent: int,
    n: int,
    max_innermost_factor: int | None,
    max_waste: float,
    waste_penalty: int,
    weights: LevelWeights | None,
) -> PaddedFactorizations:
    """Return the engine of these parameters; equal distributions share one."""
    return PaddedFactorizations(extent, n, max_innermost_factor, max_waste, waste_penalty, weights)
