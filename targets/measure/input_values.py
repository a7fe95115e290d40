"""Values for inputs: random numbers of many magnitudes, special numbers, values of one character.

A wrong program may be right on ordinary numbers. So some inputs reach the ends of their type, and
some have a character: other values at the edges of a tensor, one sign, truth values rarely true.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from schedlang.targets.measure.numerics import Array
from schedlang.tvm.analysis.value_room import BITS_BEYOND
from schedlang.workloads.workload import Argument

# -- Many magnitudes, and numbers that programs treat in a special way ----------------------------

# Decades of the magnitudes of wide numbers, which are half of them; the other half is uniform.
_DECADES = (-3.0, 1.0)
_UNIFORM = 4.0
# Numbers whose exponential is infinite in their type, while that of half of them is not.
_LARGE = {"float16": 16.0, "float64": 800.0}
_USUALLY_LARGE = 100.0
# Numbers in the middle between two integers, which roundings treat differently.
_HALVES = (0.5, -0.5, 1.5, -1.5, 2.5, -2.5)
# Parts of special numbers: 0, -0, 1, -1, large and large negative ones, and each of the halves.
_SPECIAL = (0.08, 0.04, 0.08, 0.04, 0.05, 0.05, *[0.015] * len(_HALVES))
EXACT = (0.0, 1.0, -1.0, *_HALVES)
"""Special numbers that programs may ask for."""
# Magnitudes at the edges of a tensor, as powers of two, which go by the first of several indices.
_SMALL = {
    "float32": (-8, -12, -16),
    "float64": (-8, -12, -16),
    "float16": (-4,),
    "bfloat16": (-6,),
}
_MOST_WHOLE = {"float32": 3, "float64": 3}
_SMALL_FLOAT8 = (-2,)
# Powers of two between which numbers are that no integer of 32 bits holds.
_LEAST_BEYOND, _MOST_BEYOND = 31, BITS_BEYOND
MOST_BEYOND = 2.0**BITS_BEYOND
"""Above the magnitudes of ``beyond``."""
# The part of floating-point numbers at the ends of their type, where these are drawn.
_END_PART = 0.4
# Where integers are mostly ends, the part of the end that is the farther from zero; and the part of
# each elsewhere.
_FAR_ENDS, _FEW_ENDS = 0.7, 0.0625
# Larger tensors repeat as many numbers, a prime, so that no row repeats another.
PERIOD = 1_048_583
"""Elements after which the numbers of a large tensor repeat."""


def wide(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return numbers of either sign: half uniform in [-4, 4), half of all magnitudes to 10."""

    def draw(size: int) -> Array:
        uniform = rng.uniform(-_UNIFORM, _UNIFORM, size)
        magnitudes = 10.0 ** rng.uniform(*_DECADES, size)
        return np.where(rng.random(size) < 0.5, uniform, np.copysign(magnitudes, uniform))

    return _filled(shape, draw)


def special(arg: Argument, rng: np.random.Generator) -> Array:
    """Return numbers in [-1, 1) with zeros of both signs, ones, halves and large ones."""
    large = large_number(arg.dtype)
    values = np.array([0.0, -0.0, 1.0, -1.0, large, -large, *_HALVES])
    ends = np.cumsum(_SPECIAL)

    def draw(size: int) -> Array:
        chosen = np.searchsorted(ends, rng.random(size))
        plain = rng.uniform(-1.0, 1.0, size)
        return np.where(chosen < len(values), values[np.minimum(chosen, len(values) - 1)], plain)

    return _filled(arg.shape, draw)


def ends(arg: Argument, rng: np.random.Generator) -> Array:
    """Return numbers of all magnitudes that a type has, with its largest and its smallest ones.

    An eighth of the tensor, from its start, is a quarter of the lowest number, and the next eighth
    one of the highest, so that the extremes of rows are that far from zero.
    """
    info = ml_dtypes.finfo(np.dtype(arg.dtype))  # type: ignore[no-untyped-call]
    most, least = float(info.max), float(info.tiny)
    denormal = float(info.smallest_subnormal)
    values = np.array([most, least, denormal, 3 * denormal, least - denormal, 0.0])

    def draw(size: int) -> Array:
        chosen = rng.choice(values, size)
        magnitudes = 2.0 ** rng.uniform(math.log2(least), math.log2(most) - 1, size)
        numbers = np.where(rng.random(size) < _END_PART, chosen, magnitudes)
        return np.asarray(np.copysign(numbers, rng.choice([-1.0, 1.0], size)))

    found = _filled((math.prod(arg.shape),), draw)
    eighth = found.size // 8
    found[:eighth], found[eighth : 2 * eighth] = -most / 4, most / 4
    return np.asarray(found.reshape(arg.shape))


def reaches_beyond(dtype: str) -> bool:
    """Whether a floating-point type has the numbers of ``beyond``."""
    most = float(ml_dtypes.finfo(np.dtype(dtype)).max)  # type: ignore[no-untyped-call]
    return most > MOST_BEYOND


def beyond(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Return numbers of which half are whole in no type of 32 bits: from 2**31 to 2**34.

    They lie between two integers where the type has such numbers, so that rounding errors do not
    take them to another one. The others are wide.
    """

    def draw(size: int) -> Array:
        large = np.floor(2.0 ** rng.uniform(_LEAST_BEYOND, _MOST_BEYOND, size))
        large = np.minimum(large, MOST_BEYOND - 1) + rng.choice([0.25, 0.75], size)
        return np.asarray(large * rng.choice([-1.0, 1.0], size))

    return np.where(rng.random(shape) < 0.5, _filled(shape, draw), wide(shape, rng))


def large_number(dtype: str) -> float:
    """Return a number whose exponential is infinite in a type, while that of its half is not."""
    return _UNIFORM if dtype.startswith("float8") else _LARGE.get(dtype, _USUALLY_LARGE)


def edges(arg: Argument, rng: np.random.Generator, *, ties: bool) -> Array:
    """Return small numbers at the edges of a tensor, see ``levels``, and zeros elsewhere.

    They have few bits, so that sums of them are exact. Without ``ties`` the others are negative,
    and no two numbers are equal on purpose.
    """
    level = levels(arg.shape)
    if not ties:
        below = -rng.uniform(0.0625, 0.25, arg.shape)
        return np.where(level == 0, below, level * rng.uniform(0.375, 0.5, arg.shape))
    powers = _SMALL.get(arg.dtype, _SMALL_FLOAT8)
    units = 2.0 ** np.array(powers, np.float64)
    if len(arg.shape) > 1:
        units = units[np.arange(arg.shape[0]) % len(units)]
        units = units.reshape((-1,) + (1,) * (len(arg.shape) - 1))
    else:
        units = units[0]
    factors = _filled(arg.shape, lambda size: rng.choice([1.0, 1.25, 1.5], size))
    return np.asarray(level * factors * units)


def whole(arg: Argument, rng: np.random.Generator) -> Array:
    """Return small integers other than 0: 1 and -1 in narrow types, and others up to 3 of them."""
    most = _MOST_WHOLE.get(arg.dtype, 1)

    def draw(size: int) -> Array:
        return np.asarray(rng.integers(1, most + 1, size) * rng.choice([-1.0, 1.0], size))

    return _filled(arg.shape, draw)


def integer_edges(arg: Argument, low: int, high: int) -> Array:
    """Return integers at the edges of a tensor, and the number in the middle elsewhere.

    The levels of ``levels`` are spread over the range: where both of an axis' ends have the larger
    level, these are the ends of the range.
    """
    level = levels(arg.shape).astype(np.int64)
    if low == 0:
        return (level + MOST) * high // (2 * MOST)
    return np.where(level < 0, level * -low, level * high) // MOST


def integers(
    arg: Argument,
    low: int,
    high: int,
    rng: np.random.Generator,
    *,
    special: bool,
    dense: bool = True,
) -> Array:
    """Return integers from ``low`` to ``high``, both included, of all magnitudes.

    Special ones are 0, 1, -1, powers of two, numbers next to them, and the ends. With ``dense``,
    ends are more than half of these: an eighth of the tensor, from its start, is the end that is
    the farther from zero, the next eighth is the other one, three more have one or the other, and
    an eighth of the rest does. So products of ends meet, alone and next to each other.
    """
    if high == np.iinfo(np.uint64).max:
        least = int(np.iinfo(np.int64).max)
        below = integers(arg, low, least, rng, special=special, dense=False)
        values = np.where(rng.random(arg.shape) < 0.5, below, np.iinfo(np.uint64).max - below)
    else:
        bits = min(max(abs(low), abs(high)).bit_length(), 62)

        def draw(size: int) -> Array:
            powers = np.int64(1) << rng.integers(0, bits + 1, size)
            below = rng.integers(-1, 2, size) if special else rng.integers(0, powers)
            values = (powers + below) * rng.choice(np.array([-1, 1]), size)
            # Not clipped: the ends would be most of a narrow range.
            outside = (values < low) | (values > high)
            return np.where(outside, rng.integers(low, high, size, endpoint=True), values)

        values = _filled(arg.shape, draw)
    if special and dense:
        values = _with_many_ends(values, low, high, rng)
    return with_ends(values, low, high, rng).astype(np.dtype(arg.dtype))


def _with_many_ends(values: Array, low: int, high: int, rng: np.random.Generator) -> Array:
    """Put the ends of their range in the place of many values, as ``integers`` says."""
    far, other = (low, high) if abs(low) > abs(high) else (high, low)
    found = values.reshape(-1).copy()
    chosen = _filled((found.size,), rng.random)
    eighth = -(-found.size // 8)
    is_far, is_other = chosen < _FEW_ENDS, chosen > 1 - _FEW_ENDS
    many = slice(2 * eighth, 5 * eighth)
    is_far[many] = chosen[many] < _FAR_ENDS
    is_other[many] = ~is_far[many]
    found[is_far], found[is_other] = far, other
    found[:eighth], found[eighth : 2 * eighth] = far, other
    return found.reshape(values.shape)


def indices(
    arg: Argument,
    low: int,
    high: int,
    number: int,
    order: np.random.Generator,
    rng: np.random.Generator,
) -> Array:
    """Return indices from ``low`` to ``high``, both included, of which a draw has many.

    Three quarters of them are different as long as there are enough, and other ones on each draw
    from number 1 on: ``order`` is in the same state on all. The others are some of these.
    """
    count, size = high - low + 1, math.prod(arg.shape)
    different = -(-size * 3 // 4)
    places = (np.arange(different) + (number - 1) * different) % count
    # Of a long range, steps of a length without a common factor pass through all values.
    step = int(order.integers(count // 3, count // 2 + 1)) | 1
    while math.gcd(step, count) > 1:
        step += 1
    chosen = low + (int(order.integers(count)) + places * step) % count
    values = np.concatenate([chosen, rng.choice(chosen, size - different)])
    return with_ends(rng.permutation(values).reshape(arg.shape), low, high, rng)


def with_ends(values: Array, low: int, high: int, rng: np.random.Generator) -> Array:
    """Return the values with both ends of their range among them, where there are two or more."""
    if values.size < 2:
        return values
    flat = values.reshape(-1).copy()
    flat[rng.choice(flat.size, 2, replace=False)] = low, high
    return flat.reshape(values.shape)


def _filled(shape: tuple[int, ...], draw: Callable[[int], Any]) -> Array:
    size = int(np.prod(shape))
    return np.resize(draw(min(size, PERIOD)), shape)


# -- Values of one character ----------------------------------------------------------------------

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
