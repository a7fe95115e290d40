"""Bounds of integer expressions, whatever their variables are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any, NamedTuple

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.ir.prim.expr import BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, LShift, RShift

from schedlang.tvm.values import choice_of, constant, dtype_of, element_bits, is_integer

_INT64 = 64
_ASSUMED = 2**31 - 1


class ValueInterval(NamedTuple):
    """The lowest and the highest value of an expression; infinite where they are not known."""

    low: float
    high: float

    def plus(self, other: ValueInterval) -> ValueInterval:
        """Return the interval of a sum."""
        return ValueInterval(self.low + other.low, self.high + other.high)

    def times(self, factor: float) -> ValueInterval:
        """Return the interval of a multiple."""
        if not factor:
            return _point(0)
        ends = (self.low * factor, self.high * factor)
        return ValueInterval(min(ends), max(ends))

    def joined(self, other: ValueInterval) -> ValueInterval:
        """Return the smallest interval that contains both."""
        return ValueInterval(min(self.low, other.low), max(self.high, other.high))

    @property
    def is_bounded(self) -> bool:
        """Whether both ends are known."""
        return self.low > -inf and self.high < inf


EVERYTHING = ValueInterval(-inf, inf)
_FLAG = ValueInterval(0, 1)
RangeOf = Callable[[Any], ValueInterval]
Operation = Callable[[ValueInterval, ValueInterval], ValueInterval]


def bounds(expr: Any, range_of: RangeOf) -> ValueInterval:
    """Return bounds of an integer expression.

    ``range_of`` gives those of a variable. Arithmetic that leaves its type wraps around, so that
    nothing but the range of the type is known of its result. With numbers that are not known,
    indices of 32 bits and more are taken not to.
    """
    return wrapped(dtype_of(expr), _bounds(expr, range_of))


def wrapped(dtype: str, found: ValueInterval) -> ValueInterval:
    """Return an interval if a type holds it, and the range of the type if not."""
    known = _range_of_type(dtype)
    if known.low <= found.low and found.high <= known.high:
        return found
    return known if found.is_bounded or known.high < _ASSUMED else found


def fits(dtype: str, found: ValueInterval) -> bool:
    """Return whether a type holds all values."""
    known = _range_of_type(dtype)
    return known.low <= found.low and found.high <= known.high


def _range_of_type(dtype: str) -> ValueInterval:
    if dtype.startswith("bool"):
        return _FLAG
    scalar = dtype.partition("x")[0]
    bits = element_bits(scalar) if is_integer(scalar) else _INT64
    if bits >= _INT64:
        return EVERYTHING
    if scalar.startswith("uint"):
        return ValueInterval(0, 2**bits - 1)
    return ValueInterval(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def _bounds(expr: Any, range_of: RangeOf) -> ValueInterval:
    known = constant(expr)
    if known is not None:
        return _point(known)
    if not dtype_of(expr).startswith(("int", "uint", "bool")):
        return EVERYTHING
    if isinstance(expr, tirx.Var):
        return range_of(expr)
    if isinstance(expr, tirx.Cast):
        return bounds(expr.value, range_of) if is_integer(expr.value) else EVERYTHING
    if isinstance(expr, tirx.Broadcast):
        return bounds(expr.value, range_of)
    if isinstance(expr, TensorLoad):
        return EVERYTHING
    choice = choice_of(expr)
    if choice is not None:
        return bounds(choice[1], range_of).joined(bounds(choice[2], range_of))
    if isinstance(expr, BitwiseNot):
        return bounds(expr.a, range_of).times(-1).plus(_point(-1))
    operation = _OPERATIONS.get(type(expr))
    if operation is None:
        return EVERYTHING
    return operation(bounds(expr.a, range_of), bounds(expr.b, range_of))


def _point(value: int) -> ValueInterval:
    return ValueInterval(value, value)


def _difference(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    return a.plus(b.times(-1))


def _product(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    ends = [x * y if x and y else 0 for x in a for y in b]
    return ValueInterval(min(ends), max(ends))


def _quotient(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    if b.low < 1 or not (a.is_bounded and b.is_bounded):
        return EVERYTHING
    ends = [x // y for x in a for y in b]
    return ValueInterval(min(ends), max(ends))


def _remainder(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    if b.low < 1:
        return EVERYTHING
    if a.is_bounded and b.low == b.high and a.low // b.low == a.high // b.low:
        return ValueInterval(a.low % b.low, a.high % b.low)
    return ValueInterval(0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1)


def _towards_zero(operation: Operation) -> Operation:
    """Return a division that is the same where nothing is negative."""
    return lambda a, b: operation(a, b) if a.low >= 0 else EVERYTHING


def _conjunction(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    highest = [one.high for one in (a, b) if one.low >= 0]
    return ValueInterval(0, min(highest)) if highest else EVERYTHING


def _disjunction(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    if min(a.low, b.low) < 0 or max(a.high, b.high) == inf:
        return EVERYTHING
    return ValueInterval(max(a.low, b.low), 2 ** int(max(a.high, b.high)).bit_length() - 1)


def _exclusive(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    return ValueInterval(min(0, _disjunction(a, b).low), _disjunction(a, b).high)


def _left(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    if not 0 <= b.low <= b.high < _INT64:
        return EVERYTHING
    return _product(a, ValueInterval(2 ** int(b.low), 2 ** int(b.high)))


def _right(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    if not 0 <= b.low <= b.high < _INT64:
        return EVERYTHING
    return _quotient(a, ValueInterval(2 ** int(b.low), 2 ** int(b.high)))


_OPERATIONS: Mapping[type, Operation] = {
    tirx.Add: ValueInterval.plus,
    tirx.Sub: _difference,
    tirx.Mul: _product,
    tirx.FloorDiv: _quotient,
    tirx.FloorMod: _remainder,
    tirx.Div: _towards_zero(_quotient),
    tirx.Mod: _towards_zero(_remainder),
    tirx.Min: lambda a, b: ValueInterval(min(a.low, b.low), min(a.high, b.high)),
    tirx.Max: lambda a, b: ValueInterval(max(a.low, b.low), max(a.high, b.high)),
    BitwiseAnd: _conjunction,
    BitwiseOr: _disjunction,
    BitwiseXor: _exclusive,
    LShift: _left,
    RShift: _right,
}
