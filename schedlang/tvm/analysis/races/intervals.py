"""Bounds of index expressions for many iterations at a time, and whether their places are apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from tvm import tirx

from schedlang.tvm.errors import comes_back
from schedlang.tvm.values import OPPOSITES

Integers = np.ndarray[Any, np.dtype[np.int64]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]


@comes_back
class Unbounded(Exception):
    """Nothing is known about the values of an expression."""


class Interval(NamedTuple):
    """The lowest and the highest values, one of each for every value of some variable."""

    low: Integers
    high: Integers

    def joined(self, other: Interval) -> Interval:
        """Return the smallest intervals that contain both."""
        return Interval(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


Known = Mapping[Any, Interval]


def point(value: int | Integers) -> Interval:
    """Return the interval of one value."""
    known = np.asarray(value, np.int64)
    return Interval(known, known)


def interval(
    expr: Any, known: Known, is_equal: Callable[[Any], bool] = lambda expr: False
) -> Interval:
    """Return bounds of an integer expression from those of its variables.

    They are the tightest where each variable occurs once. ``is_equal`` tells of a part of it to
    take as one value, whatever the variables are. Raises Unbounded for another expression that
    reads data, or that has a variable or an operation that nothing is known of.
    """
    if isinstance(expr, tirx.IntImm):
        return point(int(expr.value))
    if isinstance(expr, tirx.Var) and expr in known:
        return known[expr]
    if is_equal(expr):
        return point(0)
    if isinstance(expr, tirx.Cast | tirx.Broadcast):
        return interval(expr.value, known, is_equal)
    if isinstance(expr, tirx.Ramp):
        steps = Interval(point(0).low, point(int(expr.lanes) - 1).low)
        moved = _product(interval(expr.stride, known, is_equal), steps)
        return _sum(interval(expr.base, known, is_equal), moved)
    operation = _OPERATIONS.get(type(expr))
    if operation is None:
        raise Unbounded(str(expr))
    return operation(interval(expr.a, known, is_equal), interval(expr.b, known, is_equal))


def holds(condition: Any, known: Known) -> Flags:
    """Return for which values of the variables a condition holds for certain."""
    if isinstance(condition, tirx.IntImm):
        return np.asarray(int(condition.value) != 0)
    if isinstance(condition, tirx.And):
        return holds(condition.a, known) & holds(condition.b, known)
    if isinstance(condition, tirx.Or):
        return holds(condition.a, known) | holds(condition.b, known)
    if isinstance(condition, tirx.Not) and type(condition.a) in OPPOSITES:
        opposite = OPPOSITES[type(condition.a)]
        return holds(opposite(condition.a.a, condition.a.b), known)
    comparison = _COMPARISONS.get(type(condition))
    try:
        if comparison is None:
            raise Unbounded(str(condition))
        return comparison(interval(condition.a, known), interval(condition.b, known))
    except Unbounded:
        return np.asarray(False)


def _sum(a: Interval, b: Interval) -> Interval:
    return Interval(a.low + b.low, a.high + b.high)


def _difference(a: Interval, b: Interval) -> Interval:
    return Interval(a.low - b.high, a.high - b.low)


def _product(a: Interval, b: Interval) -> Interval:
    ends = [x * y for x in a for y in b]
    return Interval(np.minimum.reduce(ends), np.maximum.reduce(ends))


def _quotient(a: Interval, b: Interval) -> Interval:
    divisor = _divisor(b)
    return Interval(a.low // divisor, a.high // divisor)


def _remainder(a: Interval, b: Interval) -> Interval:
    divisor = _divisor(b)
    whole = a.low // divisor != a.high // divisor
    if not whole.any():
        return Interval(a.low % divisor, a.high % divisor)
    return Interval(
        np.where(whole, 0, a.low % divisor), np.where(whole, divisor - 1, a.high % divisor)
    )


def _smaller(a: Interval, b: Interval) -> Interval:
    return Interval(np.minimum(a.low, b.low), np.minimum(a.high, b.high))


def _larger(a: Interval, b: Interval) -> Interval:
    return Interval(np.maximum(a.low, b.low), np.maximum(a.high, b.high))


def _divisor(b: Interval) -> int:
    low, high = int(b.low.min()), int(b.high.max())
    if low != high or low <= 0:
        raise Unbounded("divisor")
    return low


_OPERATIONS: dict[type, Callable[[Interval, Interval], Interval]] = {
    tirx.Add: _sum,
    tirx.Sub: _difference,
    tirx.Mul: _product,
    tirx.FloorDiv: _quotient,
    tirx.FloorMod: _remainder,
    tirx.Min: _smaller,
    tirx.Max: _larger,
}
_COMPARISONS: dict[type, Callable[[Interval, Interval], Flags]] = {
    tirx.LT: lambda a, b: a.high < b.low,
    tirx.LE: lambda a, b: a.high <= b.low,
    tirx.GT: lambda a, b: a.low > b.high,
    tirx.GE: lambda a, b: a.low >= b.high,
    tirx.EQ: lambda a, b: (a.low == b.high) & (a.high == b.low),
    tirx.NE: lambda a, b: (a.high < b.low) | (a.low > b.high),
}


def are_apart(box: Sequence[Interval], outer: int, extent: int) -> bool:
    """Return whether the boxes of the ``extent`` iterations of a loop are apart from each other.

    ``box`` bounds each index, for ``outer`` executions of the loop one after the other.
    """
    places = np.zeros((outer, extent, 0), np.int64)
    for bounds in box:
        low, high = (np.broadcast_to(end, outer * extent) for end in bounds)
        widest = int((high - low).max())
        steps = np.diff(np.unique(low))
        # Different lowest indices along this dimension mean boxes that are apart.
        if steps.size and int(steps.min()) > widest:
            places = np.concatenate([places, low.reshape(outer, extent, 1)], axis=2)
    return all(len(np.unique(rows, axis=0)) == extent for rows in places)


def meet(indices: Sequence[Interval], outer: int, extent: int, reached: Flags) -> bool:
    """Return whether two iterations of an execution have the same indices, which are exact.

    ``reached`` are the iterations that count.
    """
    if any((index.low != index.high).any() for index in indices):
        return False
    places = np.array([np.broadcast_to(index.low, outer * extent) for index in indices])
    rows = places.reshape(len(indices), outer, extent).transpose(1, 2, 0)
    counted = np.broadcast_to(reached, outer * extent).reshape(outer, extent)
    chosen = (row[count] for row, count in zip(rows, counted, strict=True))
    return any(len(np.unique(row, axis=0)) < len(row) for row in chosen)
