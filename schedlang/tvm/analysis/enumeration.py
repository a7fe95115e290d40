"""Enumerating the elements that the iterations of a loop access."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, prod
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir.prim.expr import BitwiseAnd, BitwiseNot, BitwiseOr, BitwiseXor, LShift, RShift

from schedlang.tvm.analysis.index_sums import IndexSums
from schedlang.tvm.analysis.intervals import ValueInterval, fits
from schedlang.tvm.analysis.loop_accesses import ElementAccess
from schedlang.tvm.errors import comes_back
from schedlang.tvm.values import LIKELY, called, choice_of, constant, dtype_of, is_integer

Integers = np.ndarray[Any, np.dtype[np.int64]]

# The largest number of elements to enumerate for a tensor: a fifth of a second.
_MOST_ELEMENTS = 1 << 21
_MOST_PLACES = 1 << 62


@comes_back
class Uncountable(Exception):
    """Nothing is known about the values of an expression."""


def counted_apart(
    sums: IndexSums, loop: Any, outside: frozenset[Any], accesses: Sequence[ElementAccess]
) -> tuple[bool, bool]:
    """Return whether no two iterations access one element, and if some do, whether for certain.

    ``accesses`` are of one buffer. Where they are too many, or depend on data, neither is known.
    """
    places = [
        place
        for place in range(len(accesses[0].indices))
        if all(_is_known(sums, one, place) for one in accesses)
    ]
    if not places:
        return False, False
    # Loops that only conditions depend on make the tables larger: try without them first.
    for guarded in (False, True):
        try:
            rows, certain = _rows(sums, loop, outside, accesses, places, guarded)
        except Uncountable:
            return False, False
        if not _meet(*rows):
            return True, False
        if certain or not any(access.guards for access in accesses):
            break
    return False, certain and all(len(places) == len(one.indices) for one in accesses)


def _rows(
    sums: IndexSums,
    loop: Any,
    outside: frozenset[Any],
    accesses: Sequence[ElementAccess],
    places: Sequence[int],
    guarded: bool,
) -> tuple[tuple[Integers, int], bool]:
    """Return the elements of accesses, the number of loops around, and whether they are certain."""
    used = [_loops_of(sums, access, places, guarded) for access in accesses]
    outer = [v for v in outside if any(v in one for one in used)]
    tables: list[_ElementTable] = []
    for access, one in zip(accesses, used, strict=True):
        inner = [v for v in one if v not in outside and not v.same_as(loop.loop_var)]
        tables.append(_ElementTable(sums, access, [*outer, loop.loop_var, *inner]))
        if sum(table.size for table in tables) > _MOST_ELEMENTS:
            raise Uncountable("too many elements")
    rows = np.concatenate([table.rows(places, len(outer)) for table in tables], axis=1)
    return (rows, len(outer)), all(table.certain for table in tables)


def _is_known(sums: IndexSums, access: ElementAccess, place: int) -> bool:
    """Return whether an index is one number, whatever the data are."""
    if place >= len(access.indices):
        return False
    index = access.indices[place]
    return index is not None and index[1] is None and not any(sums.asked(index[0]))


def _loops_of(
    sums: IndexSums, access: ElementAccess, places: Sequence[int], guarded: bool
) -> list[Any]:
    """Return the variables of the loops that indices, and the ranges of these, depend on.

    With ``guarded``, also those of the conditions that depend on no data.
    """
    own = {loop.loop_var: loop for loop in access.path}
    pending = [index[0] for place in places if (index := access.indices[place]) is not None]
    if guarded:
        pending += [guard for guard in access.guards if not any(sums.asked(guard))]
    wanted: set[Any] = set()
    while pending:
        for variable in sums.loops_in(pending.pop()):
            if variable not in own:
                raise Uncountable(str(variable))
            if variable not in wanted:
                wanted.add(variable)
                pending += [own[variable].min, own[variable].extent]
    return [loop.loop_var for loop in access.path if loop.loop_var in wanted]


class _ElementTable:
    """The elements of an access, for all values of some loops' variables.

    Attributes
    ----------
    size: their number.
    certain: whether these variables alone decide if the access is executed.
    """

    def __init__(self, sums: IndexSums, access: ElementAccess, axes: Sequence[Any]) -> None:
        self._sums = sums
        self._access = access
        self._axes = axes
        steps = [sums.steps(variable) for variable in axes]
        if inf in steps:
            raise Uncountable("the length of a loop")
        self._shape = [int(one) + 1 for one in steps]
        self._known: dict[Any, Integers] = {}
        self.size = prod(self._shape)
        self.certain = True

    def rows(self, places: Sequence[int], outer: int) -> Integers:
        """Return a column for each element: values of outer loops, iteration, is stored, place."""
        reached = np.ones(self._shape, bool)
        for variable in self._axes:
            extent = self._sums.loops[variable].extent
            if constant(extent) is None:
                reached &= self._offset(variable) < self._values(extent)
        for guard in self._access.guards:
            try:
                if any(self._sums.asked(guard)):
                    raise Uncountable("data")
                reached &= self._values(guard) != 0
            except Uncountable:
                self.certain = False
        stored = np.asarray(self._access.store is not None, np.int64)
        found = [self._offset(variable) for variable in self._axes[: outer + 1]]
        found.append(stored)
        for place in places:
            index = self._access.indices[place]
            found.append(self._values(None if index is None else index[0]))
        return np.stack([np.broadcast_to(one, self._shape)[reached] for one in found])

    def _values(self, expr: Any) -> Integers:
        return _values(expr, self._value_of)

    def _offset(self, variable: Any) -> Integers:
        place = next(k for k, axis in enumerate(self._axes) if axis.same_as(variable))
        shape = [1] * len(self._shape)
        shape[place] = self._shape[place]
        return np.arange(self._shape[place], dtype=np.int64).reshape(shape)

    def _value_of(self, variable: Any) -> Integers:
        found = self._known.get(variable)
        if found is None:
            found = self._known[variable] = self._evaluated(variable)
        return found

    def _evaluated(self, variable: Any) -> Integers:
        if variable in self._sums.ambiguous:
            raise Uncountable(str(variable))
        if variable in self._sums.bound:
            return self._values(self._sums.bound[variable])
        if not any(axis.same_as(variable) for axis in self._axes):
            raise Uncountable(str(variable))
        return self._values(self._sums.loops[variable].min) + self._offset(variable)


def _meet(rows: Integers, outer: int) -> bool:
    """Return whether an element is accessed by two iterations, and stored by one."""
    if not rows.shape[1]:
        return False
    iteration, stored = rows[outer], rows[outer + 1]
    key = np.zeros(rows.shape[1], np.int64)
    size = 1
    for column in (*rows[:outer], *rows[outer + 2 :]):
        least = int(column.min())
        extent = int(column.max()) - least + 1
        size *= extent
        if size > _MOST_PLACES:
            return True
        key = key * extent + (column - least)
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=key[order][0] - 1))
    first = np.minimum.reduceat(iteration[order], starts)
    last = np.maximum.reduceat(iteration[order], starts)
    return bool(((first < last) & (np.maximum.reduceat(stored[order], starts) > 0)).any())


def _values(expr: Any, value_of: Callable[[Any], Integers]) -> Integers:
    """Return the values of an integer expression or a condition, one for each iteration.

    ``value_of`` gives those of a variable. Raises Uncountable for an unknown expression, and where
    an operand leaves its type.
    """
    known = constant(expr)
    if known is not None:
        return np.asarray(known, np.int64)
    if isinstance(expr, tirx.Var):
        return value_of(expr)
    if isinstance(expr, tirx.Cast) and is_integer(expr.value):
        found = _values(expr.value, value_of)
    elif (choice := choice_of(expr)) is not None:
        condition, yes, no = (_values(part, value_of) for part in choice)
        found = np.where(condition != 0, yes, no)
    elif isinstance(expr, tirx.Not):
        found = (_values(expr.a, value_of) == 0).astype(np.int64)
    elif called(expr) == LIKELY:
        found = _values(expr.args[0], value_of)
    elif isinstance(expr, BitwiseNot):
        found = ~_values(expr.a, value_of)
    else:
        operation = _OPERATIONS.get(type(expr))
        if operation is None:
            raise Uncountable(str(expr))
        found = operation(_values(expr.a, value_of), _values(expr.b, value_of))
        found = np.asarray(found, np.int64)
    if found.size:
        range_ = ValueInterval(int(found.min()), int(found.max()))
        if not fits(dtype_of(expr), range_) or max(-range_.low, range_.high) >= _MOST_PLACES:
            raise Uncountable(f"{expr} leaves its type")
    return found


def _floor(operation: Callable[..., Any]) -> Callable[..., Any]:
    def of_positive(a: Integers, b: Integers) -> Any:
        if (b < 1).any():
            raise Uncountable("divisor")
        return operation(a, b)

    return of_positive


def _truncating(operation: Callable[..., Any]) -> Callable[..., Any]:
    def of_positive(a: Integers, b: Integers) -> Any:
        if (b < 1).any() or (a < 0).any():
            raise Uncountable("signs of a division")
        return operation(a, b)

    return of_positive


def _shifting(operation: Callable[..., Any]) -> Callable[..., Any]:
    def by_few(a: Integers, b: Integers) -> Any:
        if (b < 0).any() or (b >= _MOST_BITS).any() or (abs(a) >= 1 << _MOST_BITS).any():
            raise Uncountable("shift")
        return operation(a, b)

    return by_few


def _product(a: Integers, b: Integers) -> Any:
    if (abs(a) >= 1 << _MOST_BITS).any() or (abs(b) >= 1 << _MOST_BITS).any():
        raise Uncountable("product")
    return a * b


_MOST_BITS = 31
_OPERATIONS: Mapping[type, Callable[..., Any]] = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: _product,
    tirx.FloorDiv: _floor(np.floor_divide),
    tirx.FloorMod: _floor(np.mod),
    tirx.Div: _truncating(np.floor_divide),
    tirx.Mod: _truncating(np.mod),
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
    LShift: _shifting(np.left_shift),
    RShift: _shifting(np.right_shift),
}
