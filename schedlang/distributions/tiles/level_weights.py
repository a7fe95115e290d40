"""Weights of tile factors, by level, in a canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from schedlang.distributions._checks import MAX_CANDIDATES, as_weight, refuse, shorten

LevelWeights: TypeAlias = tuple[tuple[int, tuple[tuple[int, float], ...]], ...]
"""``((level, ((factor, weight), ...)), ...)``, both sorted, without weights of 1."""

WeightsLike: TypeAlias = LevelWeights | Mapping[int, Mapping[int, float]]
"""Argument of constructors: level -> factor -> weight, or the stored form."""


def canonical_weights(
    owner: str, weights: WeightsLike | None, extents: Sequence[int], n: int
) -> LevelWeights | None:
    """Return the canonical form; None if no weight has an effect.

    A weight of 1 and the weight of a factor that divides none of ``extents`` have no effect. They
    are dropped, so that equal distributions compare equal. Negative levels count from the
    innermost.
    """
    if weights is None:
        return None
    levels: dict[int, tuple[tuple[int, float], ...]] = {}
    for level, factors in _pairs(owner, weights):
        if type(level) is not int or not -n <= level < n:
            problem = f"level {shorten(level)} must be an int from {-n} to {n - 1}"
            refuse(owner, "weights", weights, problem)
        if level % n in levels:
            refuse(owner, "weights", weights, f"level {level % n} occurs twice")
        kept: dict[int, float] = {}
        for factor, value in _pairs(owner, factors):
            if type(factor) is not int or factor < 1:
                problem = f"factor {shorten(factor)} must be an int of at least 1"
                refuse(owner, "weights", weights, problem)
            if factor in kept:
                refuse(owner, "weights", weights, f"factor {factor} occurs twice at level {level}")
            kept[factor] = as_weight(owner, f"weights[{level}][{factor}]", value)
        levels[level % n] = tuple(
            (factor, weight)
            for factor, weight in sorted(kept.items())
            if weight != 1.0 and any(extent % factor == 0 for extent in extents)
        )
    return tuple((level, pairs) for level, pairs in sorted(levels.items()) if pairs) or None


def zeros_of(weights: LevelWeights | None) -> LevelWeights | None:
    """Return the weights of 0 only; None if there is none."""
    holes = (
        (level, tuple((factor, weight) for factor, weight in pairs if weight == 0.0))
        for level, pairs in weights or ()
    )
    return tuple((level, pairs) for level, pairs in holes if pairs) or None


def _pairs(owner: str, value: object) -> Iterable[tuple[object, object]]:
    items: Iterable[object] = ()
    if isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, Sequence) and not isinstance(value, str | bytes):
        items = value
    else:
        refuse(owner, "weights", value, "must map levels to factors to weights")
    for count, item in enumerate(items):
        if count >= MAX_CANDIDATES:
            refuse(owner, "weights", value, f"must hold at most {MAX_CANDIDATES} entries")
        if not (isinstance(item, tuple | list) and len(item) == 2):
            refuse(owner, "weights", value, "must hold pairs")
        yield item[0], item[1]
