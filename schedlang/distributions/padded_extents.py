"""Tiles of a padded extent: one exact engine for each padded extent.

A tile (f0, f1, ...) that covers an extent without whole idle iterations is a factorization of a
padded extent P >= extent with f0 = ceil(extent / (f1 * f2 * ...)). The tiles of different padded
extents are therefore disjoint, and each part is counted, drawn and listed by ``factorizations``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import combinations

from schedlang.distributions._parameters import MAX_EXTENT, Rng, cumulate, pick_cumulated
from schedlang.distributions.factorizations import Factorizations
from schedlang.distributions.tile_engine import Factors, LevelWeights, Line, TileEngine, divisors

# Extents are rounded up to multiples of the numbers from 1 to _GRAINS, or from 1 to the bound of
# the innermost factor if that is larger, but at most to _MAX_GRAINS.
_GRAINS = 64
_MAX_GRAINS = 1024
# Precision, in bits, of the waste penalty factor of a padded extent.
_PENALTY_BITS = 32
# A step multiplies or divides a factor by these, so 16 reaches 32 without intermediate tiles.
_RATIOS = (2, 3)


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
class PaddedExtent:
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

    def line(self, d: Factors, i: int, j: int, product: int, *, on_line: bool) -> Line:
        """Return the splits of ``product`` over two levels of ``d``; are those of ``d`` one?"""
        factors, weights, total = self.engine.splits(i, j, product, product)
        tables = self.engine.tables
        others = self.scale * math.prod(
            tables[level][factor] for level, factor in enumerate(d) if level not in (i, j)
        )
        own = tables[i][d[i]] * tables[j][d[j]] if on_line else 0
        return Line(i, j, product, factors, weights, d[j] if on_line else 0, (total - own) * others)


class PaddedFactorizations(TileEngine):
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
        self.parts: dict[int, PaddedExtent] = {}
        for padded, engine in engines.items():
            mass = max((extent**waste_penalty << _PENALTY_BITS) // padded**waste_penalty, 1)
            self.parts[padded] = PaddedExtent(engine, mass, mass << (shift - engine.shift))
        totals = [part.engine.total * part.scale for part in self.parts.values()]
        self.total = sum(totals)
        self.log_total = -math.inf
        if self.total:
            self.log_total = math.log(self.total) - shift * math.log(2.0)
        self._padded = list(self.parts)
        self._cumulated = cumulate(totals) if totals else []

    def sample(self, rng: Rng) -> Factors:
        padded = self._padded[pick_cumulated(rng, self._cumulated)]
        return self.parts[padded].engine.sample(rng)

    def log_prob(self, d: Factors) -> float:
        part = self.parts[math.prod(d)]
        log_weight = math.log(part.mass)
        for table, factor in zip(part.engine.log_weights, d, strict=True):
            log_weight += table.get(factor, 0.0)
        return log_weight - self.log_total

    def weight_of(self, d: Factors) -> int:
        part = self.parts[math.prod(d)]
        return part.scale * part.engine.weight_of(d)

    def support(self) -> Iterator[Factors]:
        parts = [part.engine.support() for part in self.parts.values()]
        return heapq.merge(*parts, key=lambda d: d[::-1])

    def count(self) -> int:
        return sum(part.engine.count() for part in self.parts.values())

    def mode(self) -> Factors:
        modes = [part.engine.mode() for part in self.parts.values()]
        return min(modes, key=lambda d: (-self.weight_of(d), d[::-1]))

    def complete(self, inner: Factors) -> Factors:
        """Return the tile with these inner factors; the outermost factor covers the extent."""
        return (-(-self.extent // math.prod(inner)), *inner)

    def repair(self, wanted: Factors) -> Factors:
        """Return the tile that keeps most of the inner factors; in a tie, with the least waste."""
        kept = self.complete(wanted[1:])
        part = self.parts.get(math.prod(kept))
        if part is not None and part.engine.weight_of(kept):
            return kept

        def distance(d: Factors) -> float:
            pairs = zip(d[1:], wanted[1:], strict=True)
            return math.fsum(abs(math.log(kept) - math.log(asked)) for kept, asked in pairs)

        repaired = [part.engine.repair(wanted) for part in self.parts.values()]
        return min(repaired, key=lambda d: (round(distance(d), 9), math.prod(d)))

    def nearest(self, wanted: Factors) -> Factors:
        return self.repair(wanted)

    def lines(self, d: Factors, weight: int) -> list[Line]:
        """Return the lines through ``d``.

        The outermost factor follows from the inner ones, so the inner factors are the coordinates.
        A line contains the tiles that differ in one of them, or in two with a fixed product.
        """
        part = self.parts[math.prod(d)]
        found = [line for j in range(1, self.n) for line in self._coordinate_lines(d, j)]
        for i, j in combinations(range(1, self.n), 2):
            if d[i] * d[j] > 1:
                found.append(part.line(d, i, j, d[i] * d[j], on_line=True))
        return found

    def neighbours(self, d: Factors) -> tuple[Factors, ...]:
        """Return the tiles one step from ``d``.

        A step changes an inner factor to its next smaller or larger value, multiplies or divides it
        by 2 or 3, or moves one prime between two inner levels.
        """
        found: dict[Factors, None] = {}
        for j in range(1, self.n):
            line = sorted(f for part in self._coordinate_lines(d, j) for f in part.factors)
            position, here = line.index(d[j]), d[j]
            steps = line[max(position - 1, 0) : position] + line[position + 1 : position + 2]
            wanted = [here * ratio for ratio in _RATIOS]
            wanted += [here // ratio for ratio in _RATIOS if here % ratio == 0]
            permitted = set(line)
            for factor in (*steps, *(f for f in wanted if f in permitted)):
                found[self.complete((*d[1:j], factor, *d[j + 1 :]))] = None
        for other in self.parts[math.prod(d)].engine.neighbours(d):
            if other[0] == d[0]:
                found[other] = None
        return tuple(found)

    def _coordinate_lines(self, d: Factors, j: int) -> Iterator[Line]:
        """Yield the tiles of each padded extent that differ from ``d`` in inner factor j only."""
        here = math.prod(d)
        others = here // d[0] // d[j]
        for padded, part in self.parts.items():
            if padded % others == 0:
                yield part.line(d, 0, j, padded // others, on_line=padded == here)


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
