"""Truth values: all of them True or False, or all but one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlang.targets.measure.verify import Array

# The value of most elements, and the place of the one that differs; random at the end.
_KINDS: tuple[tuple[bool, int | None], ...] = (
    (True, None),
    (False, None),
    (True, -1),
    (False, -1),
    (True, 0),
    (False, 0),
)
KINDS = len(_KINDS)
"""Number of draws after which a vector has had all kinds."""


def truth_values(shape: Sequence[int], number: int, rng: np.random.Generator) -> Array:
    """Return truth values for a draw, of which 0 has random ones.

    The elements of a vector are all True, all False, or all but the last or the first; which of
    these, goes by ``number``. A tensor of several axes has one of these in the place of each index
    of one axis, and random ones in the place of some; which axis, goes by ``number``.
    """
    random = rng.integers(0, 2, tuple(shape)).astype(np.bool_)
    if number == 0 or random.size == 0:
        return random
    long = [axis for axis, extent in enumerate(shape) if extent > 1]
    if len(long) < 2:
        return _of_kind(number - 1, random)
    parts = np.moveaxis(random, long[(number - 1) % len(long)], 0)
    for first in range(min(KINDS + 1, len(parts))):
        kind = (first + number - 1) % (KINDS + 1)
        if kind < KINDS:
            parts[first :: KINDS + 1] = _of_kind(kind, parts[0])
    return random


def _of_kind(kind: int, like: Array) -> Array:
    usual, place = _KINDS[kind % KINDS]
    flat = np.full(like.size, usual, np.bool_)
    if place is not None:
        flat[place] = not usual
    return flat.reshape(like.shape)
