"""Values that are different where an index is the first or the last of its axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlang.targets.measure.verify import Array

MOST = 2
"""The largest level."""


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
