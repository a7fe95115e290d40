"""The places in a buffer that iterations access, as arrays over all iterations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedlang.tvm.analysis.races.intervals import Flags, Interval


def are_apart(box: Sequence[Interval], outer: int, extent: int) -> bool:
    """Return whether the boxes of the ``extent`` iterations of a loop are apart from each other.

    ``box`` bounds each index, for ``outer`` executions of the loop one after the other.
    """
    places = np.zeros((outer, extent, 0), np.int64)
    for bounds in box:
        low, high = (np.broadcast_to(end, outer * extent) for end in bounds)
        widest = int((high - low).max())
        steps = np.diff(np.unique(low))
        # Different lowest indices along this dimension mean boxes that are apart.
        if steps.size and int(steps.min()) > widest:
            places = np.concatenate([places, low.reshape(outer, extent, 1)], axis=2)
    return all(len(np.unique(rows, axis=0)) == extent for rows in places)


def meet(indices: Sequence[Interval], outer: int, extent: int, reached: Flags) -> bool:
    """Return whether two iterations of an execution have the same indices, which are exact.

    ``reached`` are the iterations that count.
    """
    if any((index.low != index.high).any() for index in indices):
        return False
    places = np.array([np.broadcast_to(index.low, outer * extent) for index in indices])
    rows = places.reshape(len(indices), outer, extent).transpose(1, 2, 0)
    counted = np.broadcast_to(reached, outer * extent).reshape(outer, extent)
    chosen = (row[count] for row, count in zip(rows, counted, strict=True))
    return any(len(np.unique(row, axis=0)) < len(row) for row in chosen)
