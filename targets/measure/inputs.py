"""Random inputs for a program, and the initial values of its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.measure.specification import TensorSpec
from schedlang.targets.measure.verify import Array, is_floating
from schedlang.tvm.analysis.index_ranges import ValueRange

_POISON = 0xA5
_OTHER_POISON = 0x5A
_LARGEST_INDEX = 128

Ranges = Mapping[int, ValueRange]
"""The values that integer arguments may have, by position."""


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
    more may be indices: they stay below every extent above one, and below 128. An integer argument
    in ``ranges`` is uniform between the two values, both included; where one is None, it is that of
    other arguments of the type. ``analysis.index_ranges`` reads ``ranges`` off a program, for
    indices, divisors and the offsets of rows, which ascend.
    """
    rng = np.random.default_rng(seed)
    extents = [extent for arg in args for extent in arg.shape if extent > 1]
    index_bound = min([*extents, _LARGEST_INDEX])
    drawn: list[Array | None] = []
    for position, arg in enumerate(args):
        if arg.role == "output":
            drawn.append(None)
        elif position in ranges:
            drawn.append(_in_range(arg, rng, ranges[position], index_bound))
        else:
            drawn.append(
                _random(arg.shape, arg.dtype, rng, index_bound=index_bound, positive=positive)
            )
    return drawn


def _in_range(
    arg: TensorSpec, rng: np.random.Generator, wanted: ValueRange, index_bound: int
) -> Array:
    """Draw integers of a range, as far as their type holds it."""
    limits = np.iinfo(np.dtype(arg.dtype))
    low, high = _default_range(limits, index_bound)
    if wanted.low is not None:
        low = min(max(wanted.low, int(limits.min)), int(limits.max))
        high = max(low, high)
    if wanted.high is not None:
        high = max(min(wanted.high, int(limits.max)), int(limits.min))
        low = min(low, high)
    values = np.asarray(rng.integers(low, high, arg.shape, endpoint=True))
    if wanted.ascending:
        values = np.sort(values, axis=None).reshape(arg.shape)
    return values.astype(np.dtype(arg.dtype))


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
    least, most = _default_range(limits, index_bound)
    return np.asarray(rng.integers(least, most, shape, endpoint=True)).astype(limits.dtype)


def _default_range(limits: np.iinfo[Any], index_bound: int) -> tuple[int, int]:
    if limits.bits > 16:
        return 0, index_bound - 1
    return (0 if limits.min == 0 else -int(limits.max)), int(limits.max)


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
