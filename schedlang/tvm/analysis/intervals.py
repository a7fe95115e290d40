"""The values of integer expressions: between which bounds they are, and what they are at points.

All analyses of ranges compute with ``ValueInterval``, whatever they take for known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from math import inf
from typing import Any, NamedTuple

import numpy as np
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.ir.prim.expr import BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, LShift, RShift

from schedlang.tvm.errors import comes_back
from schedlang.tvm.values import (
    LIKELY,
    called,
    choice_of,
    constant,
    dtype_of,
    element_bits,
    is_integer,
)

_INT64 = 64
_ASSUMED = 2**31 - 1


class ValueInterval(NamedTuple):
    """The lowest and the highest value of an expression; infinite where they are not known."""

    low: float
    high: float

    def plus(self, other: ValueInterval) -> ValueInterval:
        """Return the interval of a sum."""
        return ValueInterval(self.low + other.low, self.high + other.high)

    def minus(self, other: ValueInterval) -> ValueInterval:
        """Return the interval of a difference."""
        return self.plus(other.times(-1))

    def times(self, factor: float) -> ValueInterval:
        """Return the interval of a multiple."""
        if not factor:
            return _point(0)
        ends = (self.low * factor, self.high * factor)
        return ValueInterval(min(ends), max(ends))

    def product(self, other: ValueInterval) -> ValueInterval:
        """Return the interval of a product."""
        ends = [x * y if x and y else 0 for x in self for y in other]
        return ValueInterval(min(ends), max(ends))

    def minimum(self, other: ValueInterval) -> ValueInterval:
        """Return the interval of the smaller of two numbers."""
        return ValueInterval(min(self.low, other.low), min(self.high, other.high))

    def maximum(self, other: ValueInterval) -> ValueInterval:
        """Return the interval of the larger of two numbers."""
        return ValueInterval(max(self.low, other.low), max(self.high, other.high))

    def joined(self, other: ValueInterval) -> ValueInterval:
        """Return the smallest interval that contains both."""
        return ValueInterval(min(self.low, other.low), max(self.high, other.high))

    def clipped(self, other: ValueInterval) -> ValueInterval:
        """Return the part of it that another one contains."""
        return ValueInterval(max(self.low, other.low), min(self.high, other.high))

    def holds(self, other: ValueInterval) -> bool:
        """Return whether it contains all of another one."""
        return self.low <= other.low and other.high <= self.high

    @property
    def size(self) -> float:
        """The largest magnitude."""
        return max(abs(self.low), abs(self.high))

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
    known = _range_of_indices(dtype)
    if known.holds(found):
        return found
    return known if found.is_bounded or known.high < _ASSUMED else found


def fits(dtype: str, found: ValueInterval) -> bool:
    """Return whether a type holds all values; those of 64 bits are taken to hold all."""
    return _range_of_indices(dtype).holds(found)


def range_of_type(dtype: str) -> ValueInterval:
    """Return the lowest and the highest number of a type of integers or booleans, or of vectors.

    Everything for any other type.
    """
    scalar = dtype.partition("x")[0]
    if scalar.startswith("bool"):
        return _FLAG
    if not is_integer(scalar):
        return EVERYTHING
    bits = element_bits(scalar)
    if scalar.startswith("uint"):
        return ValueInterval(0, 2**bits - 1)
    return ValueInterval(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@cache
def _range_of_indices(dtype: str) -> ValueInterval:
    known = range_of_type(dtype)
    return EVERYTHING if known.high - known.low >= 2**_INT64 - 1 else known


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


def quotient(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    """Return the interval of a quotient rounded down; everything unless the divisor is above 0."""
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
    return a.product(ValueInterval(2 ** int(b.low), 2 ** int(b.high)))


def _right(a: ValueInterval, b: ValueInterval) -> ValueInterval:
    if not 0 <= b.low <= b.high < _INT64:
        return EVERYTHING
    return quotient(a, ValueInterval(2 ** int(b.low), 2 ** int(b.high)))


MONOTONE: Mapping[type, Operation] = {
    tirx.Add: ValueInterval.plus,
    tirx.Sub: ValueInterval.minus,
    tirx.Mul: ValueInterval.product,
    tirx.Min: ValueInterval.minimum,
    tirx.Max: ValueInterval.maximum,
}
_OPERATIONS: Mapping[type, Operation] = {
    **MONOTONE,
    tirx.FloorDiv: quotient,
    tirx.FloorMod: _remainder,
    tirx.Div: _towards_zero(quotient),
    tirx.Mod: _towards_zero(_remainder),
    BitwiseAnd: _conjunction,
    BitwiseOr: _disjunction,
    BitwiseXor: _exclusive,
    LShift: _left,
    RShift: _right,
}


# -- The values of an expression at many points ---------------------------------------------------

Integers = np.ndarray[Any, np.dtype[np.int64]]
MOST_PLACES = 1 << 62
"""Numbers from here on may overflow in what follows."""
_MOST_BITS = 31


@comes_back
class Uncountable(Exception):
    """Nothing is known about the values of an expression."""


def values_at(expr: Any, value_of: Callable[[Any], Integers], *, in_range: bool = True) -> Integers:
    """Return the values of an integer expression or a condition, one for each point.

    ``value_of`` gives those of a variable. Raises Uncountable for an unknown expression, for a
    division whose signs decide how it rounds and, unless ``in_range`` is given up, where an operand
    leaves its type.
    """

    def of(part: Any) -> Integers:
        return values_at(part, value_of, in_range=in_range)

    known = constant(expr)
    if known is not None:
        return np.asarray(known, np.int64)
    if isinstance(expr, tirx.Var):
        return value_of(expr)
    if isinstance(expr, tirx.Cast) and is_integer(expr.value):
        found = of(expr.value)
    elif (choice := choice_of(expr)) is not None:
        condition, yes, no = map(of, choice)
        found = np.where(condition != 0, yes, no)
    elif isinstance(expr, tirx.Not):
        found = (of(expr.a) == 0).astype(np.int64)
    elif called(expr) == LIKELY:
        found = of(expr.args[0])
    elif isinstance(expr, BitwiseNot):
        found = ~of(expr.a)
    else:
        operation = _AT_POINTS.get(type(expr))
        if operation is None:
            raise Uncountable(str(expr))
        a, b = of(expr.a), of(expr.b)
        _check_operands(expr, a, b, in_range=in_range)
        found = np.asarray(operation(a, b), np.int64)
    if in_range and found.size:
        range_ = ValueInterval(int(found.min()), int(found.max()))
        if not fits(dtype_of(expr), range_) or range_.size >= MOST_PLACES:
            raise Uncountable(f"{expr} leaves its type")
    return found


def _check_operands(expr: Any, a: Integers, b: Integers, *, in_range: bool) -> None:
    """Raise Uncountable where signs decide how a division rounds, or numpy may have no room."""
    if isinstance(expr, tirx.Div | tirx.Mod) and ((b < 1).any() or (a < 0).any()):
        raise Uncountable("signs of a division")
    if not in_range:
        return
    most = 1 << _MOST_BITS
    if isinstance(expr, tirx.FloorDiv | tirx.FloorMod) and (b < 1).any():
        raise Uncountable("divisor")
    if isinstance(expr, LShift | RShift) and (
        (b < 0).any() or (b >= _MOST_BITS).any() or (abs(a) >= most).any()
    ):
        raise Uncountable("shift")
    if isinstance(expr, tirx.Mul) and ((abs(a) >= most).any() or (abs(b) >= most).any()):
        raise Uncountable("product")


_AT_POINTS: Mapping[type, Callable[..., Any]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Div: np.floor_divide,
    tirx.Mod: np.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.And: np.logical_and,
    tirx.Or: np.logical_or,
    tirx.EQ: np.equal,
    tirx.NE: np.not_equal,
    tirx.LT: np.less,
    tirx.LE: np.less_equal,
    tirx.GT: np.greater,
    tirx.GE: np.greater_equal,
    BitwiseAnd: np.bitwise_and,
    BitwiseOr: np.bitwise_or,
    BitwiseXor: np.bitwise_xor,
    LShift: np.left_shift,
    RShift: np.right_shift,
}
