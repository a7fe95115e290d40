"""Moves between tiles that need not divide the extent: neighbours and proposals.

The outermost factor follows from the inner ones, so the inner factors are the coordinates. A *line*
contains the tiles that differ in one of them, or in two with a fixed product. Two tiles share at
most one line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from schedlang.distributions._drawing import PRIOR_JUMP, Rng, cumulate, pick_cumulated
from schedlang.distributions.tiles import factor_moves as _factor_moves
from schedlang.distributions.tiles.padded_extents import PaddedFactorizations, Part

Factors = tuple[int, ...]

# A step multiplies or divides a factor by these, so 16 reaches 32 without intermediate tiles.
_RATIOS = (2, 3)


@dataclass(frozen=True, slots=True)
class _Segment:
    """The tiles of a line that share a padded extent: the factors of level j, ascending.

    ``masses`` are their integer weights; the mass of the current tile is 0.
    """

    padded: int
    i: int
    j: int
    factors: Sequence[int]
    masses: Sequence[int]


def neighbours(engine: PaddedFactorizations, d: Factors) -> tuple[Factors, ...]:
    """Return the tiles one step from ``d``.

    A step changes an inner factor to its next smaller or larger value, multiplies or divides it by
    2 or 3, or moves one prime between two inner levels.
    """
    found: dict[Factors, None] = {}
    for j in range(1, engine.n):
        line = sorted(f for part in _coordinate_line(engine, d, j) for f in part.factors)
        position, here = line.index(d[j]), d[j]
        steps = line[max(position - 1, 0) : position] + line[position + 1 : position + 2]
        wanted = [here * ratio for ratio in _RATIOS]
        wanted += [here // ratio for ratio in _RATIOS if here % ratio == 0]
        permitted = set(line)
        for factor in (*steps, *(f for f in wanted if f in permitted)):
            found[engine.complete((*d[1:j], factor, *d[j + 1 :]))] = None
    part = engine.parts[math.prod(d)]
    for other in _factor_moves.neighbours(part.engine, d):
        if other[0] == d[0]:
            found[other] = None
    return tuple(found)


def propose(engine: PaddedFactorizations, d: Factors, rng: Rng) -> tuple[Factors, float]:
    """Draw another tile on the lines through ``d`` in proportion to the prior, or from the prior.

    The proposal density has the form of ``factor_moves.propose``, with these lines.
    """
    own = engine.weight(d)
    if own == engine.total:
        return d, 0.0
    segments = _segments(engine, d)
    masses = [sum(segment.masses) for segment in segments]
    here = sum(masses)
    if here == 0 or rng.random() * PRIOR_JUMP < 1.0:
        proposed = engine.sample(rng)
        if proposed == d:
            return d, 0.0
    else:
        segment = segments[pick_cumulated(rng, cumulate(masses))]
        factor = segment.factors[pick_cumulated(rng, cumulate(segment.masses))]
        changed = list(d)
        if segment.i:
            changed[segment.i] = d[segment.i] * d[segment.j] // factor
        changed[segment.j] = factor
        proposed = engine.complete(changed[1:])
    other = engine.weight(proposed)
    there = sum(sum(segment.masses) for segment in _segments(engine, proposed))
    adjacent = _on_one_line(d, proposed)
    log_ratio = (
        math.log(own)
        - math.log(other)
        + _factor_moves.log_coefficient(engine.total, there, adjacent)
        - _factor_moves.log_coefficient(engine.total, here, adjacent)
    )
    return proposed, log_ratio


def _on_one_line(a: Factors, b: Factors) -> bool:
    differing = sum(x != y for x, y in zip(a[1:], b[1:], strict=True))
    return differing == 1 or (differing == 2 and math.prod(a[1:]) == math.prod(b[1:]))


def _coordinate_line(engine: PaddedFactorizations, d: Factors, j: int) -> list[_Segment]:
    """Return the tiles that differ from ``d`` in the inner factor j and the outermost one only."""
    others = math.prod(d[1:j]) * math.prod(d[j + 1 :])
    segments = []
    for padded, part in engine.parts.items():
        if padded % others:
            continue
        product = padded // others
        factors, weights, _ = part.engine.line(0, j, product, product)
        common = _common_weight(part, d, 0, j)
        masses = [common * weight for weight in weights]
        segments.append(_Segment(padded, 0, j, factors, masses))
    return segments


def _pair_line(engine: PaddedFactorizations, d: Factors, i: int, j: int) -> _Segment:
    """Return the tiles that split the product of the inner factors i and j differently."""
    padded = math.prod(d)
    part = engine.parts[padded]
    product = d[i] * d[j]
    factors, weights, _ = part.engine.line(i, j, product, product)
    common = _common_weight(part, d, i, j)
    return _Segment(padded, i, j, factors, [common * weight for weight in weights])


def _common_weight(part: Part, d: Factors, i: int, j: int) -> int:
    """Return the weight of the levels other than i and j, in the units shared by all parts."""
    tables = part.engine.weight
    return part.scale * math.prod(
        tables[level][factor] for level, factor in enumerate(d) if level not in (i, j)
    )


def _segments(engine: PaddedFactorizations, d: Factors) -> list[_Segment]:
    """Return all lines through ``d``, without ``d`` itself."""
    padded = math.prod(d)
    segments = []
    for j in range(1, engine.n):
        for segment in _coordinate_line(engine, d, j):
            holds = segment.padded == padded
            segments.append(_without(segment, d[j]) if holds else segment)
    for i, j in combinations(range(1, engine.n), 2):
        if d[i] * d[j] > 1:
            segments.append(_without(_pair_line(engine, d, i, j), d[j]))
    return segments


def _without(segment: _Segment, factor: int) -> _Segment:
    masses = list(segment.masses)
    masses[segment.factors.index(factor)] = 0
    return _Segment(segment.padded, segment.i, segment.j, segment.factors, masses)
