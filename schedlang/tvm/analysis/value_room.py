"""How large the arguments of a program may be before its results depend on the compiler."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlockRealize

from schedlang.tvm.analysis.characters import jumps
from schedlang.tvm.analysis.intervals import MONOTONE, ValueInterval, range_of_type
from schedlang.tvm.program import MAIN, block_realizes
from schedlang.tvm.statements import Place, Regions, is_reduced, reduces, table_of
from schedlang.tvm.values import (
    called,
    choice_of,
    dtype_of,
    extent_of,
    found_in,
    has_loads,
    is_floating,
    is_integer,
    loads_of,
)

Rows = Sequence[tuple[Any, Place]]
"""The table of a program's statements: ``table_of``."""
_CHECKED_BITS = 32
# Magnitudes to try for integers, as powers of two; the largest without an overflow is taken.
_TRIED = (64, 63, 62, 55, 48, 40, 31, 30, 28, 24, 20, 18, 16, 15, 14, 12, 11, 10, 9)
# Magnitudes of the others while one argument is as large as it may be.
SMALL_BITS = 4
BITS_BEYOND = 34
"""Floating-point numbers beyond 32 bits are below two to this power."""
# What integers are bounded by meanwhile: small ones, and all of short types.
_BITS_BESIDE = 16
# Functions that make a number larger by one at most.
_NEAR = ("floor", "ceil", "trunc", "round", "nearbyint", "abs", "fabs", "likely")
# What is not known of a number: a loop variable, or a number that was rounded to an integer.
_UNKNOWN = 1 << 16
_ANY = ValueInterval(-_UNKNOWN, _UNKNOWN)
_ENDLESS = ValueInterval(-(1 << 1100), 1 << 1100)
_DIVISIONS = (tirx.Div, tirx.FloorDiv)
_REMAINDERS = (tirx.Mod, tirx.FloorMod)
_EXTREMA = (tirx.Min, tirx.Max)
_BITWISE = (tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor, tirx.BitwiseNot)


@dataclass(frozen=True)
class ValueRoom:
    """How large arguments may be.

    Attributes
    ----------
    bits: integers may have magnitudes below ``2 ** bits``, as far as their type has these, without
        an overflow in 32 bits and more, which LLVM takes to be impossible: two right programs may
        then differ. 0 where even small ones may overflow, or decide how long a loop runs.
    each: the same for these arguments, by position, which have more room than that.
    alone: the same for one argument, by position, while the others are below ``2 ** SMALL_BITS``;
        only where that is more than the others leave.
    wide, special: floating-point numbers may be larger than 1, and much larger: none is rounded to
        an integer of a type that may not hold it.
    ties: equal numbers are harmless. Where a reduction finds the place of a number, any of equal
        ones may be right.
    """

    bits: int = 0
    wide: bool = True
    special: bool = True
    ties: bool = True
    each: Mapping[int, int] = field(default_factory=dict)
    alone: Mapping[int, int] = field(default_factory=dict)

    def bits_of(self, place: int, leading: int | None = None) -> int:
        """Return the bits of an integer argument.

        With a ``leading`` one, this one is as large as it may be alone, and the others are small.
        """
        if leading is None:
            return self.each.get(place, self.bits)
        return self.alone[place] if place == leading else min(self.bits, SMALL_BITS)


def value_room(mod: IRModule) -> ValueRoom:
    """Find out how large the arguments of an unscheduled program may be."""
    func = mod[MAIN]
    casts = list(_open_casts(func.body))
    narrow = any(_bits(cast) < _CHECKED_BITS for cast in casts)
    rows = table_of(func.body)
    bits = _integer_bits(func, rows)
    each, alone = _single_bits(func, rows, bits) if bits else ({}, {})
    return ValueRoom(bits, not narrow, not casts, not _finds_places(func), each, alone)


def has_room_beyond(mod: IRModule) -> bool:
    """Whether a program rounds numbers to whole ones, and these may have more than 32 bits.

    They may where it converts none to an integer of a type that does not hold it, and no index
    depends on elements.
    """
    func = mod[MAIN]
    if not jumps(mod) or found_in(func.body, (tirx.While, tirx.Bind, tirx.Let)):
        return False
    accesses = found_in(func.body, (TensorLoad, tirx.BufferStore))
    if any(has_loads(index) for access in accesses for index in access.indices):
        return False
    try:
        _Reach(func).check(table_of(func.body))
    except OverflowError:
        return False
    return True


def _open_casts(body: Any) -> Iterator[Any]:
    """Yield the casts from floating-point numbers to integers that nothing clips before."""
    for cast in found_in(body, tirx.Cast):
        value = cast.value
        if not is_integer(cast) or not is_floating(value):
            continue
        while isinstance(value, Call | tirx.Cast):
            value = value.args[0] if isinstance(value, Call) and len(value.args) else value
            if isinstance(value, Call):
                break
            value = value.value if isinstance(value, tirx.Cast) else value
        clipped = isinstance(value, _EXTREMA) and any(
            isinstance(part, _EXTREMA) for part in (value.a, value.b)
        )
        if not clipped:
            yield cast


def _finds_places(func: Any) -> bool:
    """Whether a reduction gives several numbers at a time, as the place of a maximum does."""
    return any(len(node.block.writes) > 1 and reduces(node.block) for node in block_realizes(func))


def _integer_bits(func: Any, rows: Rows) -> int:
    if found_in(func.body, tirx.While):
        return 0
    places = _integer_places(func)
    return next((bits for bits in _TRIED if _fits(func, rows, dict.fromkeys(places, bits))), 0)


def _integer_places(func: Any) -> list[int]:
    return [
        place
        for place, var in enumerate(func.params)
        if isinstance(var.ty, tirx.BufferType) and is_integer(var)
    ]


def _fits(func: Any, rows: Rows, bits: Mapping[int, int]) -> bool:
    """Whether nothing overflows where arguments have magnitudes below two to these powers."""
    try:
        _Magnitudes(func, bits).check(rows)
    except OverflowError:
        return False
    return True


def _single_bits(func: Any, rows: Rows, bits: int) -> tuple[dict[int, int], dict[int, int]]:
    """Return ``each`` and ``alone`` of a program that leaves all arguments ``bits`` bits."""
    places = _integer_places(func)
    common = dict.fromkeys(places, bits)
    small = dict.fromkeys(places, min(bits, SMALL_BITS))
    each: dict[int, int] = {}
    alone: dict[int, int] = {}
    for place in places:
        if _bits(func.params[place]) < _CHECKED_BITS:
            continue
        for found, others in ((each, common | each), (alone, small)):
            room = (common | each)[place]
            larger = (more for more in _TRIED if more > room)
            fitting = (more for more in larger if _fits(func, rows, {**others, place: more}))
            most = next(fitting, None)
            if most is not None:
                found[place] = most
    return each, alone


class _Magnitudes:
    """Bounds the numbers that a program computes from integers below ``2 ** bits``.

    ``bits`` are of each integer argument, by position. Bounds are the lowest and the highest value.
    """

    def __init__(self, func: Any, bits: Mapping[int, int]) -> None:
        self._stored: dict[Any, ValueInterval] = {}
        for place, most in bits.items():
            limit, var = (1 << most) - 1, func.params[place]
            self._stored[var] = ValueInterval(-limit, limit).clipped(_ends(var))
        self._regions = Regions()

    def check(self, rows: Rows) -> None:
        """Raise OverflowError unless all that the statements of a program compute fits."""
        for stmt, place in rows:
            if isinstance(stmt, SBlockRealize):
                self._regions.note(stmt.block)
            elif isinstance(stmt, tirx.BufferStore):
                self._store(self._regions.tensor(stmt.buffer), stmt.value, _times(place))

    def _store(self, buffer: Any, value: Any, times: int) -> None:
        before = self._stored.get(buffer, ValueInterval(0, 0))
        stored = self._of(value)
        if not self._keeps(buffer):
            return
        again = any(self._regions.tensor(load.source).same_as(buffer) for load in loads_of(value))
        bounds = before.joined(stored)
        if again and isinstance(value, tirx.Add | tirx.Sub):
            low = before.low + (bounds.low - before.low) * times
            bounds = ValueInterval(low, before.high + (bounds.high - before.high) * times)
        elif again and isinstance(value, tirx.Mul):
            raise OverflowError(str(value))
        self._stored[buffer] = _held(bounds, buffer, value) if is_integer(buffer) else bounds

    def _keeps(self, buffer: Any) -> bool:
        """Whether to bound the elements of a tensor."""
        return is_integer(buffer)

    def _rounded(self, cast: Any) -> ValueInterval:
        """Return the bounds of a floating-point number that is rounded to an integer."""
        return _wrapped(_ANY, cast)

    def _bounds(self, buffer: Any) -> ValueInterval:
        """Return the bounds of the elements of a tensor."""
        return self._stored.get(buffer, _ends(buffer) if is_integer(buffer) else _ANY)

    def _of(self, node: Any) -> ValueInterval:
        """Return the bounds of an expression."""
        bounds = self._unchecked(node)
        return _held(bounds, node, node) if is_integer(node) else bounds

    def _unchecked(self, node: Any) -> ValueInterval:
        if isinstance(node, tirx.IntImm):
            return ValueInterval(int(node.value), int(node.value))
        if isinstance(node, TensorLoad):
            # Not the indices: they are within the tensors.
            return self._bounds(self._regions.tensor(node.source))
        if isinstance(node, tirx.Cast):
            # What a shorter type does not hold is cut off, which is no overflow.
            if not is_integer(node.value):
                return self._rounded(node)
            return _wrapped(self._of(node.value), node)
        choice = choice_of(node)
        if choice is not None:
            _, yes, no = map(self._of, choice)
            return yes.joined(no)
        if isinstance(node, Call):
            return self._call(node)
        parts = [self._of(getattr(node, name)) for name in "ab" if hasattr(node, name)]
        if dtype_of(node) == "bool":
            return ValueInterval(0, 1)
        if isinstance(node, _BITWISE):
            bits = int(max(part.size for part in parts)).bit_length()
            return ValueInterval(-(1 << bits), (1 << bits) - 1).clipped(_ends(node))
        if len(parts) != 2:
            return _ANY
        one, other = parts
        if isinstance(node, tirx.Sub) and dtype_of(node).startswith("uint"):
            if _bits(node) >= _CHECKED_BITS:
                raise OverflowError(str(node))
        operation = MONOTONE.get(type(node))
        if operation is not None:
            return operation(one, other)
        if isinstance(node, tirx.LShift | tirx.RShift):
            if has_loads(node.b) or other.size >= _bits(node):
                raise OverflowError(str(node))
            # What is shifted out is lost, which is no overflow.
            factor = 1 << int(other.high) if isinstance(node, tirx.LShift) else 1
            return _wrapped(one.times(factor), node)
        if isinstance(node, _DIVISIONS):
            if other.low > 0:
                low, high = one.low // other.low, one.high // other.low
                return ValueInterval(min(low, 0), max(high, 0))
            return ValueInterval(-one.size, one.size)
        if isinstance(node, _REMAINDERS):
            return ValueInterval(-other.size, other.size).clipped(_ends(node))
        return _ANY

    def _call(self, call: Any) -> ValueInterval:
        name = called(call).rpartition(".")[2]
        found = [self._of(arg) for arg in call.args if hasattr(arg, "ty")]
        if name == "abs":
            return ValueInterval(0, found[0].size)
        if name == "likely":
            return found[0]
        return _ends(call) if is_integer(call) else _ANY


class _Reach(_Magnitudes):
    """Bounds numbers that a program computes from floating-point ones of more than 32 bits, too.

    Each is below ``2 ** BITS_BEYOND``; one of which nothing is known overflows where it becomes an
    integer.
    """

    def __init__(self, func: Any) -> None:
        super().__init__(func, dict.fromkeys(_integer_places(func), _BITS_BESIDE))
        limit = 1 << BITS_BEYOND
        for var in func.params:
            if isinstance(var.ty, tirx.BufferType) and is_floating(var):
                self._stored[var] = ValueInterval(-limit, limit)

    def _bounds(self, buffer: Any) -> ValueInterval:
        return self._stored.get(buffer, _ends(buffer) if is_integer(buffer) else _ENDLESS)

    def _keeps(self, buffer: Any) -> bool:
        return is_integer(buffer) or is_floating(buffer)

    def _rounded(self, cast: Any) -> ValueInterval:
        bounds = self._of(cast.value)
        if not _ends(cast).holds(bounds):
            raise OverflowError(str(cast))
        return bounds

    def _unchecked(self, node: Any) -> ValueInterval:
        if isinstance(node, tirx.FloatImm):
            value = float(node.value)
            if not math.isfinite(value):
                return _ENDLESS
            return ValueInterval(math.floor(value), math.ceil(value))
        if isinstance(node, tirx.Cast) and is_floating(node):
            return self._of(node.value)
        if is_floating(node) and isinstance(node, (*_DIVISIONS, *_REMAINDERS)):
            # The divisor may be next to zero.
            return _ENDLESS
        return super()._unchecked(node)

    def _call(self, call: Any) -> ValueInterval:
        if is_floating(call):
            name = called(call).rpartition(".")[2]
            return self._of(call.args[0]) if name in _NEAR else _ENDLESS
        return super()._call(call)


def _times(place: Place) -> int:
    """Return how often a store may add to an element: in loops, and in the sum of its block."""
    times = 1
    while place.outer is not None:
        inner = place.around[-1]
        if isinstance(inner, SBlockRealize):
            reduced = [axis for axis in inner.block.iter_vars if is_reduced(axis)]
            sums = math.prod(extent_of(axis.dom.extent, _UNKNOWN) for axis in reduced)
            return times if place.in_init else times * max(sums, 1)
        if isinstance(inner, tirx.For):
            times *= max(extent_of(inner.extent, _UNKNOWN), 1)
        place = place.outer
    return times


def _wrapped(bounds: ValueInterval, expression: Any) -> ValueInterval:
    """Return the bounds of what a type keeps of numbers: all of it where some are outside."""
    ends = _ends(expression)
    return bounds if ends.holds(bounds) else ends


def _held(bounds: ValueInterval, expression: Any, cause: Any) -> ValueInterval:
    """Return the same of a result; OverflowError where LLVM takes that to be impossible."""
    kept = _wrapped(bounds, expression)
    # Without an element in it, it is the same in all calls.
    if kept != bounds and _bits(expression) >= _CHECKED_BITS and has_loads(cause):
        raise OverflowError(str(cause))
    return kept


def _bits(expression: Any) -> int:
    return int("".join(filter(str.isdigit, dtype_of(expression))) or 1)


def _ends(expression: Any) -> ValueInterval:
    """Return the lowest and the highest number of the type of an expression or a tensor."""
    return range_of_type(dtype_of(expression))
