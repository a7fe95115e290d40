"""Random inputs for a program, and the initial values of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.measure.specification import TensorSpec
from schedlang.targets.measure.verify import Array, is_floating

_POISON = 0xA5
_OTHER_POISON = 0x5A
_LARGEST_INDEX = 128


Ranges = Mapping[int, tuple[int, int]]
"""Lowest and highest value of integer arguments, by position."""


def random_inputs(
    args: Sequence[TensorSpec],
    seed: int,
    *,
    positive: bool = False,
    ranges: Ranges = MappingProxyType({}),
) -> list[Array | None]:
    """Draw a value for each argument; None for an argument that is only written.

    Floating-point values are uniform in [-1, 1), with ``positive`` in [0.1, 1). Small integers fill
    the range of their type, except for the one value that has no negation. Integers of 32 bits and
    more may be indices: they stay below every extent above one. An integer argument in ``ranges``
    is uniform between the two values, both included.
    """
    rng = np.random.default_rng(seed)
    extents = [extent for arg in args for extent in arg.shape if extent > 1]
    index_bound = min([*extents, _LARGEST_INDEX])
    drawn: list[Array | None] = []
    for position, arg in enumerate(args):
        if arg.role == "output":
            drawn.append(None)
        elif position in ranges:
            low, high = ranges[position]
            values = np.asarray(rng.integers(low, high, arg.shape, endpoint=True))
            drawn.append(values.astype(np.dtype(arg.dtype)))
        else:
            drawn.append(
                _random(arg.shape, arg.dtype, rng, index_bound=index_bound, positive=positive)
            )
    return drawn


def _random(
    shape: tuple[int, ...],
    dtype: str,
    rng: np.random.Generator,
    *,
    index_bound: int,
    positive: bool,
) -> Array:
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if is_floating(dtype):
        low = 0.1 if positive else -1.0
        return np.asarray(rng.uniform(low, 1.0, shape)).astype(np.dtype(dtype))
    limits = np.iinfo(np.dtype(dtype))
    if limits.bits > 16:
        return np.asarray(rng.integers(0, index_bound, shape)).astype(np.dtype(dtype))
    low_int = 0 if limits.min == 0 else -limits.max
    return np.asarray(rng.integers(low_int, limits.max, shape, endpoint=True)).astype(limits.dtype)


def poison(shape: tuple[int, ...], dtype: str) -> Array:
    """Return an output's initial value: NaN, or an odd pattern if the type has no NaN."""
    if is_floating(dtype):
        return np.full(shape, np.nan, np.dtype(dtype))
    return _pattern(shape, dtype, _POISON)


def other_poison(shape: tuple[int, ...], dtype: str) -> Array:
    """Return a second content, which differs from ``poison`` in every element."""
    if is_floating(dtype):
        return np.full(shape, 0.5, np.dtype(dtype))
    return _pattern(shape, dtype, _OTHER_POISON)


def _pattern(shape: tuple[int, ...], dtype: str, byte: int) -> Array:
    kind: np.dtype[Any] = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    return np.full(size, byte, np.uint8).view(kind).reshape(shape)
