"""Values that are all on one side of zero."""

from __future__ import annotations

import numpy as np

from schedlang.targets.measure.verify import Array


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
