"""Weights that take few values, as integers of 4 or 8 bits with scales: what quantisation left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_GROUPS = (1024, 512, 256, 128, 64, 32, 16)
_MOST = {4: 15, 8: 255}
_PROBED_ROWS = 4
_SMALLEST = range(1, 128)
"""By how many scales the value nearest to 0 of a group may be away from it."""


@dataclass(frozen=True)
class LowBitWeights:
    """Weights (m, k) whose element is ``(q - z) * s``, rounded once.

    Attributes
    ----------
    bits: 4 or 8.
    q: (m, k); uint8, and int8 for 8 bits without zero points.
    s: (m, groups), of the type of the weights; a group is k / groups neighbours of a row.
    z: (m, groups), uint8; None where it is 8 for 4 bits and 0 for 8 bits.
    """

    bits: int
    q: Array
    s: Array
    z: Array | None

    @property
    def stored(self) -> Array:
        """The integers in bytes (m, k * bits / 8), the first of two in the lower half."""
        return self.q if self.bits == 8 else self.q[:, 0::2] | (self.q[:, 1::2] << 4)  # noqa: PLR2004


def low_bit(weights: Array) -> LowBitWeights | None:
    """Return these weights (m, k) as integers and scales that give them bit for bit, or None.

    Groups are as long as can be: a whole row, or one of 1024 to 16 elements.
    """
    rows, steps = weights.shape
    probe = weights[:: max(rows // _PROBED_ROWS, 1)]
    groups = (steps, *(size for size in _GROUPS if size < steps and steps % size == 0))
    if _on_a_lattice(probe[:, : groups[-1]], groups[-1]) is None:
        return None
    for group in groups:
        if _on_a_lattice(probe, group) is not None:
            found = _on_a_lattice(weights, group)
            packed = found and _packed(*found, even=steps % 2 == 0)
            if packed:
                return packed
    return None


def _on_a_lattice(weights: Array, group: int) -> tuple[Array, Array] | None:
    """Return integers (m, groups, group) and scales (m, groups) whose products are the weights."""
    if not np.isfinite(weights).all():
        return None
    values = weights.reshape(len(weights), -1, group)
    sizes = np.abs(values)
    least = np.where(sizes > 0, sizes, np.inf).min(axis=-1)
    least[np.isinf(least)] = 1
    counts, scales = np.zeros(values.shape, np.int16), np.zeros(least.shape, weights.dtype)
    left = np.ones(least.shape, bool)
    for smallest in _SMALLEST:
        near = (least / weights.dtype.type(smallest)).astype(weights.dtype)
        for scale in (near, np.nextafter(near, 0), np.nextafter(near, np.inf)):
            tried, some = scale[left][:, None], values[left]
            with np.errstate(all="ignore"):
                count = np.rint(some / tried)
                fits = (np.abs(count) <= _MOST[8]).all(axis=-1)
                fits &= (count * tried == some).all(axis=-1)
            chosen = np.flatnonzero(left)[fits]
            counts.reshape(-1, group)[chosen] = count[fits]
            scales.reshape(-1)[chosen] = tried[fits, 0]
            left.reshape(-1)[chosen] = False
            if not left.any():
                return counts, scales
    return None


def _packed(counts: Array, scales: Array, *, even: bool) -> LowBitWeights | None:
    """Return integers and scales as weights of as few bits as hold them."""
    low, high = counts.min(axis=-1), counts.max(axis=-1)
    rows = len(counts)
    for bits, most in _MOST.items():
        half = (most + 1) // 2
        if bits == 4 and not even:  # noqa: PLR2004
            continue
        if low.min() >= -half and high.max() < half:
            signed = counts.reshape(rows, -1)
            whole = (signed + half).astype(np.uint8) if bits == 4 else signed.astype(np.int8)  # noqa: PLR2004
            return LowBitWeights(bits, whole, scales, None)
        zero = np.maximum(-low, 0)
        if (high + zero).max() <= most:
            whole = (counts + zero[..., None]).astype(np.uint8).reshape(rows, -1)
            return LowBitWeights(bits, whole, scales, zero.astype(np.uint8))
    return None
