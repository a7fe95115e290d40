"""Values of one character: at the edges of a tensor, on one side of zero, rarely true."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlang.targets.measure.verify import Array

MOST = 2
"""The largest level."""

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
"""Number of draws after which a vector has had all kinds of truth values."""


def levels(shape: Sequence[int]) -> Array:
    """Return -2, -1, 1 or 2 where an index is the first or the last of its axis, and 0 elsewhere.

    The last has the magnitude 2, and the first has the magnitude 1 and the other sign; an element
    at the edge of several axes has the level of the last of them. Along each other axis signs
    alternate. So in half of the rows the last element is the largest, and in the others the first
    is; in each row, the other one is the smallest. Products of rows and columns do not cancel.
    """
    found = np.zeros(tuple(shape), np.int8)
    long = [axis for axis, extent in enumerate(shape) if extent > 1]
    if not long:
        found[...] = MOST
    for axis in long:
        edge = np.moveaxis(found, axis, -1)
        signs = _signs(edge.shape[:-1])
        edge[..., 0] = -signs
        edge[..., -1] = MOST * signs
    return found


def _signs(shape: Sequence[int]) -> Array:
    """Return 1 and -1, in alternation along each axis."""
    odd = np.zeros(tuple(shape), np.int8)
    for axis, extent in enumerate(shape):
        numbers = np.arange(extent) % 2
        odd ^= numbers.astype(np.int8).reshape((-1,) + (1,) * (len(shape) - axis - 1))
    return np.asarray(1 - 2 * odd)


def one_sided(
    shape: tuple[int, ...], nearest: float, rng: np.random.Generator, *, below: bool
) -> Array:
    """Return numbers whose magnitudes are from ``nearest`` to three times that.

    The first of each row is the nearest to zero, and the last the farthest.
    """
    values = np.asarray(nearest * rng.uniform(1.25, 2.0, shape))
    if values.ndim:
        values[..., :1] = nearest
        values[..., -1:] = nearest if values.shape[-1] == 1 else 3 * nearest
    return -values if below else values


def alternating(values: Array) -> Array:
    """Return the values with the other sign at each second index of the first of several axes."""
    if values.ndim < 2:
        return values
    turned = values.copy()
    turned[1::2] = -turned[1::2]
    return turned


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
