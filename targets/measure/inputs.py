"""The inputs of a program, and the initial values of its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.measure import input_values
from schedlang.targets.measure.draws import (
    ABOVE,
    BELOW,
    BEYOND,
    EDGES,
    ENDS,
    FAR_ABOVE,
    FAR_BELOW,
    PLAIN,
    SCALED,
    SPECIAL,
    SPREADS,
    WHOLE,
    WIDE,
    InputDraw,
    plain_draw,
)
from schedlang.targets.measure.input_values import alternating, levels, one_sided, truth_values
from schedlang.targets.measure.numerics import Array
from schedlang.tvm.analysis.index_ranges import IntegerUses, ValueRange
from schedlang.tvm.analysis.value_room import SMALL_BITS, ValueRoom
from schedlang.tvm.values import is_floating
from schedlang.workloads.workload import Argument

_POISON = 0xA5
_OTHER_POISON = 0x5A
_LARGEST_INDEX = 128
_LEAST_POSITIVE = 0.1
_NARROW_BITS = 16
_MOST_AT_EDGES = (1 << SMALL_BITS) - 1
# The least magnitude of numbers on one side of zero, and of those far from it: their exponentials
# are 0, which takes somewhat larger numbers than infinity does.
_NEAREST, _FAR = 0.25, 1.25
_FAR_INTEGER = 1 << 60
_NO_USES = IntegerUses({}, frozenset(), frozenset())

Ranges = Mapping[int, ValueRange]
"""The values that integer arguments may have, by position."""


@dataclass(frozen=True, eq=False)
class InputSource:
    """Where the inputs of a program come from.

    Attributes
    ----------
    args: the tensors of one call.
    seed: of the random numbers.
    uses: how the program uses its integer arguments.
    room: how large arguments may be.
    given: for each draw, the user's values of the arguments that are read; then nothing is drawn.
    change: changes inputs in the way of this number.
    spreads: characters of the draws that suit the program.
    unrounded: positions of the floating-point arguments whose values no operation rounds.

    A **plain** floating-point argument is uniform in [-1, 1). A **wide** one is signed, up to 10,
    and has all magnitudes down to 0.001. A **special** one mixes plain numbers with 0, -0, 1, -1
    and a few whose exponential is too large for their type (100; 16 for float16, 800 for float64).
    A positive one is at least 0.1, and otherwise like that.

    An **edges** argument is 0 but for small numbers where an index is the first or the last of its
    axis, so that these alone decide about sums and extremes. All numbers are on one side of zero in
    one that is **far below zero** or **far above zero**, and large: without the program's own
    maximum, their exponentials are 0 or infinite. They are at most 1 in one that is **below zero**
    or **above zero**. That is the largest argument; the others change their sign with the first of
    several indices. A **whole** one has small integers other than 0. One of **ends** has the
    largest numbers of its type, the smallest, denormal ones, and all magnitudes; where its values
    are rounded, it is special. One **beyond 32 bits** has numbers of either sign from 2**31 to
    2**34 in half of its elements, and is wide in the others; integers are plain then. Plain, wide
    and special numbers are multiplied by the draw's scale.

    A plain integer of 8 or 16 bits fills the range of its type. One of 32 bits and more may be an
    index: it stays below every extent above one, and below 128. ``uses.ranges`` replaces that
    range; ascending ones are sorted. Wide and special draws of such an argument hold both ends of
    its range. They go beyond where it is free: as far as ``room.bits`` says, with any sign and all
    magnitudes; special ones are mostly the ends, 0, 1, -1, powers of two and their neighbours, see
    ``input_values.integers``. Where the others have to be small for that, one argument of special
    draws is as large as ``room.alone`` says, and another one of edges draws.

    Indices of a known range take on as many different values as they can, in plain draws at random:
    each other draw has those that come next in one random order of them all, in three elements of
    four, and some of them again in the others.

    Truth values are random in plain draws, see ``truth_values`` for the others.
    """

    args: Sequence[Argument]
    seed: int
    uses: IntegerUses = _NO_USES
    room: ValueRoom = field(default_factory=ValueRoom)
    given: Sequence[Sequence[Array]] | None = None
    change: Callable[[list[Array | None], int], list[Array | None]] | None = None
    spreads: Sequence[str] = SPREADS
    unrounded: frozenset[int] = frozenset()

    def values(self, draw: InputDraw) -> list[Array | None]:
        """Return a value for each argument; None for an argument that is only written."""
        if self.given is not None:
            left = iter(self.given[draw.number])
            return [None if arg.role == "output" else next(left) for arg in self.args]
        if draw.change is not None:
            return self.changed(self.values(replace(draw, change=None)), draw)
        rng = np.random.default_rng([self.seed, draw.number] if draw.number else self.seed)
        extents = [extent for arg in self.args for extent in arg.shape if extent > 1]
        index_bound = min([*extents, _LARGEST_INDEX])
        return [
            None if arg.role == "output" else self._draw(place, draw, rng, index_bound)
            for place, arg in enumerate(self.args)
        ]

    def changed(self, values: list[Array | None], draw: InputDraw) -> list[Array | None]:
        """Return the values of a draw from those that it changes."""
        assert self.change is not None and draw.change is not None
        return self.change(values, draw.change)

    def _draw(
        self, place: int, draw: InputDraw, rng: np.random.Generator, index_bound: int
    ) -> Array:
        arg, kind = self.args[place], draw.spreads[place]
        if arg.dtype == "bool":
            return truth_values(arg.shape, draw.number, rng)
        if is_floating(arg.dtype):
            kind = self._permitted(place, kind)
            numbers = self._numbers(place, kind, rng, positive=place in draw.positive)
            if kind in SCALED and draw.scale != 1.0:
                numbers = np.asarray(numbers * draw.scale)
            return numbers.astype(np.dtype(arg.dtype))
        limits = np.iinfo(np.dtype(arg.dtype))
        wanted = self.uses.ranges.get(place)
        if kind != PLAIN and place in self.uses.indices and _is_closed(wanted):
            assert wanted is not None
            low, high = _narrowed(0, 0, wanted, limits)
            order = np.random.default_rng([self.seed, place])
            return input_values.indices(arg, low, high, draw.number, order, rng).astype(
                limits.dtype
            )
        kind = PLAIN if kind == BEYOND else kind
        free = kind != PLAIN and place in self.uses.free
        if free and (limits.bits <= _NARROW_BITS or self.room.bits):
            return self._integers(place, kind, limits, wanted, rng)
        low, high = _narrowed(*_default_range(limits, index_bound), wanted, limits)
        values = np.asarray(rng.integers(low, high, arg.shape, endpoint=True))
        if kind != PLAIN and wanted is not None:
            values = input_values.with_ends(values, low, high, rng)
        if wanted is not None and wanted.ascending:
            values = np.sort(values, axis=None).reshape(arg.shape)
        return values.astype(limits.dtype)

    def _permitted(self, place: int, kind: str) -> str:
        if kind == BEYOND and not input_values.reaches_beyond(self.args[place].dtype):
            kind = SPECIAL
        if kind == ENDS and not (place in self.unrounded and self.room.special and self.room.ties):
            kind = SPECIAL
        if kind == SPECIAL and not (self.room.special and self.room.ties):
            kind = WIDE
        if kind in (FAR_BELOW, FAR_ABOVE) and not (self.room.wide and self.room.special):
            kind = BELOW if kind == FAR_BELOW else ABOVE
        return PLAIN if kind == WIDE and not self.room.wide else kind

    def _numbers(self, place: int, kind: str, rng: np.random.Generator, *, positive: bool) -> Array:
        arg = self.args[place]
        if kind == PLAIN:
            return np.asarray(rng.uniform(_LEAST_POSITIVE if positive else -1.0, 1.0, arg.shape))
        if kind == EDGES:
            if positive:
                return np.asarray(0.5 + np.abs(levels(arg.shape)))
            return input_values.edges(arg, rng, ties=self.room.ties)
        if kind == WHOLE:
            values = input_values.whole(arg, rng)
        elif kind == WIDE:
            values = input_values.wide(arg.shape, rng)
        elif kind == SPECIAL:
            values = input_values.special(arg, rng)
        elif kind == ENDS:
            values = input_values.ends(arg, rng)
        elif kind == BEYOND:
            values = input_values.beyond(arg.shape, rng)
        else:
            far = kind in (FAR_BELOW, FAR_ABOVE) and place == self._largest
            nearest = _FAR * input_values.large_number(arg.dtype) if far else _NEAREST
            values = one_sided(arg.shape, nearest, rng, below=kind in (FAR_BELOW, BELOW))
            values = values if place == self._largest else alternating(values)
        return np.maximum(np.abs(values), _LEAST_POSITIVE) if positive else values

    @cached_property
    def _largest(self) -> int:
        """The place of the largest argument that is read and has numbers."""
        sizes = {
            place: math.prod(arg.shape)
            for place, arg in enumerate(self.args)
            if arg.role != "output" and arg.dtype != "bool"
        }
        return max(sizes, key=lambda place: sizes[place], default=0)

    def _leading(self, kind: str) -> int | None:
        """Return the place of the integers that are as large as possible while others are small."""
        order = {SPECIAL: 0, EDGES: 1}.get(kind, len(self.room.alone))
        return next(iter(sorted(self.room.alone)[order:]), None)

    def _integers(
        self,
        place: int,
        kind: str,
        limits: np.iinfo[Any],
        wanted: ValueRange | None,
        rng: np.random.Generator,
    ) -> Array:
        """Return integers of an argument that may have any value that the program has room for."""
        arg, room = self.args[place], self.room
        low, high = int(limits.min), int(limits.max)
        if limits.bits > _NARROW_BITS:
            leading = self._leading(kind)
            kind = WIDE if place == leading else kind
            most = (1 << room.bits_of(place, leading)) - 1
            low, high = max(low, -most), min(high, most)
        if kind == EDGES:
            reach = _MOST_AT_EDGES if limits.bits > _NARROW_BITS else high
            values = input_values.integer_edges(arg, max(low, -reach), min(high, reach))
        elif kind in (FAR_BELOW, FAR_ABOVE):
            below = kind == FAR_BELOW and low < 0
            end = min(abs(low) if below else high, 3 * _FAR_INTEGER)
            values = np.rint(one_sided(arg.shape, end / 3, rng, below=below))
            values = values if place == self._largest or low == 0 else alternating(values)
        else:
            low, high = _narrowed(low, high, wanted, limits)
            special = kind in (SPECIAL, ENDS) and room.ties
            return input_values.integers(arg, low, high, rng, special=special, dense=room.bits > 0)
        return np.clip(values, *_narrowed(low, high, wanted, limits)).astype(limits.dtype)


def random_inputs(
    args: Sequence[Argument], seed: int, *, ranges: Ranges = MappingProxyType({})
) -> list[Array | None]:
    """Return plain inputs, as ``InputSource`` draws them; None for what is only written."""
    uses = IntegerUses(ranges, frozenset(), frozenset())
    return InputSource(args, seed, uses).values(plain_draw(args))


def _is_closed(wanted: ValueRange | None) -> bool:
    """Whether a range has both ends, and its values may be in any order."""
    return wanted is not None and None not in wanted[:2] and not wanted.ascending


def _narrowed(
    low: int, high: int, wanted: ValueRange | None, limits: np.iinfo[Any]
) -> tuple[int, int]:
    """Return the bounds of integers of a range, as far as their type holds it."""
    if wanted is not None and wanted.low is not None:
        low = min(max(wanted.low, int(limits.min)), int(limits.max))
        high = max(low, high)
    if wanted is not None and wanted.high is not None:
        high = max(min(wanted.high, int(limits.max)), int(limits.min))
        low = min(low, high)
    return low, high


def _default_range(limits: np.iinfo[Any], index_bound: int) -> tuple[int, int]:
    if limits.bits > _NARROW_BITS:
        return 0, index_bound - 1
    return int(limits.min), int(limits.max)


def perturbed(value: Array, relative: float, rng: np.random.Generator) -> Array:
    """Return floating-point numbers that are off by up to ``relative`` of each.

    0, 1, -1 and halves stay, with the sign of 0: programs may ask for them.
    """
    exact = value.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        changed = exact + relative * exact * rng.uniform(-1.0, 1.0, value.shape)
        return np.where(np.isin(exact, input_values.EXACT), value, changed.astype(value.dtype))


def poison(shape: tuple[int, ...], dtype: str) -> Array:
    """Return an output's initial value: NaN, or an odd pattern if the type has no NaN."""
    if is_floating(dtype):
        return np.full(shape, np.nan, np.dtype(dtype))
    return _pattern(shape, dtype, _POISON)


def other_poison(shape: tuple[int, ...], dtype: str) -> Array:
    """Return a second content, which differs from ``poison`` in every element."""
    if is_floating(dtype):
        return np.resize(np.array([0.5, -0.5], np.dtype(dtype)), shape)
    return _pattern(shape, dtype, _OTHER_POISON)


def _pattern(shape: tuple[int, ...], dtype: str, byte: int) -> Array:
    kind: np.dtype[Any] = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    return np.full(size, byte, np.uint8).view(kind).reshape(shape)
