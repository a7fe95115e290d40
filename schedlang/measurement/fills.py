"""What memory holds before a program writes it: something else in each call.

``max``, ``min`` and comparisons discard some contents: NaN, or the numbers at one end. A program
that reads what it never wrote gives right results where they discard what it finds, so it has to
find something else in the next call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from schedlang.tvm.values import is_floating

Fill = bytes
"""Bytes that memory of any element type repeats."""

# Of floating-point numbers of all types NaN, of integers -1 or the largest.
NAN: Fill = b"\xff"
# Far above and far below other floating-point numbers: 61,280 of float16, 1.3e36 of float32.
_ABOVE: Fill = b"\x7b"
_BELOW: Fill = b"\xfb"
# Near the ends of signed integers; exactly those of int8.
_LARGEST: Fill = b"\x7f"
_SMALLEST: Fill = b"\x80"
_ZERO: Fill = b"\x00"
# A prime number of bytes, so that no row of a tensor repeats another.
_RANDOM: Fill = np.random.default_rng(0).bytes(4099)


def fills_for(dtypes: Iterable[str]) -> tuple[Fill, ...]:
    """Return all fills, in the order of calls: first those that tell most of these types."""
    kinds = {
        "float" if is_floating(dtype) else "int" if dtype.startswith("int") else "uint"
        for dtype in dtypes
    }
    order = [NAN]
    order += [_ABOVE, _BELOW, _RANDOM] if "float" in kinds else []
    order += [_LARGEST, _SMALLEST] if "int" in kinds else []
    order += [_ZERO] if "uint" in kinds else []
    every = (*order, _RANDOM, _ABOVE, _BELOW, _LARGEST, _SMALLEST, _ZERO)
    return tuple(dict.fromkeys(every))


def content(fill: Fill, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    """Return a tensor that holds a fill; one of a single byte takes no memory, and is read-only."""
    kind = np.dtype(dtype)
    count = 1 if len(fill) == 1 else int(np.prod(shape))
    values = np.resize(np.frombuffer(fill, np.uint8), count * kind.itemsize).view(kind)
    return np.broadcast_to(values.reshape(()), shape) if len(fill) == 1 else values.reshape(shape)
