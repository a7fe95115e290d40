"""Weights of tile factors, by level, in the one form that equal priors share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from schedlang.distributions._checks import MAX_CANDIDATES, as_weight, refuse

LevelWeights: TypeAlias = tuple[tuple[int, tuple[tuple[int, float], ...]], ...]
"""``((level, ((factor, weight), ...)), ...)``, both sorted, without weights of 1."""

WeightsLike: TypeAlias = LevelWeights | Mapping[int, Mapping[int, float]]
"""What constructors take: level -> factor -> weight, or the stored form."""


def canonical_weights(
    owner: str, weights: WeightsLike | None, extents: Sequence[int], n: int
) -> LevelWeights | None:
    """The canonical form, None when it says nothing.

    A weight of 1 and the weight of a factor that divides none of ``extents`` change nothing and are
    left out, so that equal distributions compare equal. Negative levels count from the inside.
    """
    if weights is None:
        return None
    levels: dict[int, tuple[tuple[int, float], ...]] = {}
    for level, factors in _pairs(owner, weights):
        if type(level) is not int or not -n <= level < n:
            refuse(owner, "weights", weights, f"a level must be an int from {-n} to {n - 1}")
        if level % n in levels:
            refuse(owner, "weights", weights, f"level {level % n} comes twice")
        kept: dict[int, float] = {}
        for factor, value in _pairs(owner, factors):
            if type(factor) is not int or factor < 1:
                refuse(owner, "weights", weights, "a factor must be an int of at least 1")
            if factor in kept:
                refuse(owner, "weights", weights, f"factor {factor} comes twice at one level")
            kept[factor] = as_weight(owner, f"weights[{level}][{factor}]", value)
        levels[level % n] = tuple(
            (factor, weight)
            for factor, weight in sorted(kept.items())
            if weight != 1.0 and any(extent % factor == 0 for extent in extents)
        )
    return tuple((level, pairs) for level, pairs in sorted(levels.items()) if pairs) or None


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
