"""Checks of tile decisions, and the factors read from a misfit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeGuard

from schedlang.distributions.tiles.level_weights import LevelWeights


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
