"""One program with symbolic extents, from programs that differ in their extents only.

Each of its integers follows from the extents by a ``Formula``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir import IRModule
from tvm_ffi import structural_equal, structural_map

from schedlang.codec import Stored
from schedlang.tvm import program

# -- How an integer of a program follows from the extents -----------------------------------------

# Divisors of rounded quotients, as strides and unit sizes give them, and the largest factor of an
# extent that is more than a divisor.
_DIVISORS = range(2, 33)
_FACTOR = 4
_DEGREE = 3

Point = Mapping[str, int]


@Stored(row=True)
@dataclass(frozen=True)
class Formula:
    """An integer as a polynomial of extents, divided and rounded down.

    Attributes
    ----------
    terms: coefficient of each product of extents; the names of a product are in order.
    divisor: of the sum of all terms.
    """

    terms: tuple[tuple[tuple[str, ...], int], ...]
    divisor: int = 1

    @property
    def is_constant(self) -> bool:
        """Whether no extent counts."""
        return all(not names for names, _ in self.terms)

    def at(self, point: Point) -> int:
        """Return the integer for these extents."""
        return _value(self.terms, point) // self.divisor

    def inverse_of(self) -> tuple[str, int] | None:
        """Return an extent and a number that it is less than the integer by; None if it is not."""
        names = [names for names, _ in self.terms if names]
        if self.divisor != 1 or len(names) != 1 or len(names[0]) != 1:
            return None
        terms = dict(self.terms)
        return (names[0][0], terms.get((), 0)) if terms[names[0]] == 1 else None


def _value(terms: Sequence[tuple[tuple[str, ...], int]], point: Point) -> int:
    total = 0
    for names, coefficient in terms:
        for name in names:
            coefficient *= point[name]
        total += coefficient
    return total


def fit(values: Sequence[int], points: Sequence[Point]) -> Formula | None:
    """Return the simplest formula that has these values at these points; None without one.

    A formula has at most half as many terms as there are points, so that the others confirm it.
    """
    if len(set(values)) == 1:
        return Formula((((), values[0]),))
    names = list(points[0])
    wanted = np.array(values, dtype=float)
    for degree in range(1, _DEGREE + 1):
        products = [
            product
            for size in range(1, degree + 1)
            for product in combinations_with_replacement(names, size)
        ]
        # Products of fewer extents first: those of one, of two, of all.
        for chosen in _choices(products):
            found = _polynomial(wanted, points, [(), *chosen])
            if found is not None:
                return found
    return _quotient(values, points)


def _choices(products: Sequence[tuple[str, ...]]) -> list[list[tuple[str, ...]]]:
    single = [[one] for one in products]
    pairs = [[one, two] for k, one in enumerate(products) for two in products[k + 1 :]]
    return [*single, *pairs, list(products)]


def _polynomial(
    values: np.ndarray, points: Sequence[Point], products: Sequence[tuple[str, ...]]
) -> Formula | None:
    if 2 * len(products) > len(points):
        return None
    columns = [[_value([(one, 1)], point) for one in products] for point in points]
    table = np.array(columns, dtype=float)
    solved, _, rank, _ = np.linalg.lstsq(table, values, rcond=None)
    if rank < len(products):
        return None
    rounded = np.rint(solved).astype(int)
    terms = tuple((one, int(c)) for one, c in zip(products, rounded, strict=True) if c)
    formula = Formula(terms)
    exact = all(formula.at(p) == int(v) for p, v in zip(points, values, strict=True))
    return formula if exact else None


def _quotient(values: Sequence[int], points: Sequence[Point]) -> Formula | None:
    """Return a formula ``(a * extent + b) // divisor``."""
    for name in points[0]:
        extents = np.array([point[name] for point in points])
        wanted = np.array(values)
        for divisor in _DIVISORS:
            for factor in range(1, max(divisor, _FACTOR + 1)):
                # b lies between what each value allows.
                low = int((wanted * divisor - factor * extents).max())
                high = int(((wanted + 1) * divisor - 1 - factor * extents).min())
                if low <= high and np.gcd(factor, divisor) == 1:
                    # Of several the nearest to zero; more points leave one.
                    b = min(max(0, low), high)
                    terms = (((name,), factor), *((((), b),) if b else ()))
                    return Formula(terms, divisor)
    return None


# -- Programs that become one ---------------------------------------------------------------------


class UnifyError(ValueError):
    """Programs cannot be made one: the message says what differs."""


@Stored(row=True)
@dataclass(frozen=True)
class Reading:
    """Where the code reads an extent: from the shape of an argument.

    Attributes
    ----------
    argument, axis: which extent of which argument.
    more: by how much that is more than the extent.
    """

    argument: int
    axis: int
    more: int


@dataclass(frozen=True)
class SymbolicProgram:
    """A program for any extents.

    Attributes
    ----------
    mod: its function has a variable in place of each extent that differed. A call reads their
        values from the shapes of the arguments.
    readings: where it reads each extent.
    shapes: formulas of the extents of each argument.
    """

    mod: IRModule
    readings: Mapping[str, Reading]
    shapes: tuple[tuple[Formula, ...], ...]
    _first: tirx.PrimFunc
    _formulas: tuple[Formula, ...]

    def is_program_of(self, point: Point, mod: IRModule) -> bool:
        """Return whether ``mod`` is this program for the extents of ``point``."""
        func = mod[program.MAIN]
        numbers = [formula.at(point) for formula in self._formulas]
        if _integers(func) != numbers:
            return False
        values = iter(numbers)
        made = _with_integers(self._first, lambda old: tirx.IntImm(old.ty.dtype, next(values)))
        return bool(structural_equal(made, func))


def unify(points: Sequence[Point], mods: Sequence[IRModule]) -> SymbolicProgram:
    """Return the program of which those of ``mods``, one for each point, are special cases.

    Where the integers of the programs differ, they have to follow from the extents: as sums of
    products, or as a rounded quotient of one extent (see ``fitting``).

    Raises ``UnifyError`` where they do not, where the programs have other parts, and for an extent
    that no shape of an argument tells.
    """
    funcs = [mod[program.MAIN] for mod in mods]
    formulas = _formulas(points, [_integers(func) for func in funcs])
    shapes = _shapes(points, [program.parameters(func) for func in funcs])
    varying = [name for name in points[0] if len({point[name] for point in points}) > 1]
    readings = {name: _reading(name, shapes) for name in varying}
    first = funcs[0]
    symbols = _Symbols(first, readings, shapes)
    following = iter(formulas)
    made = _with_integers(first, lambda old: symbols.number(next(following), old))
    unified = SymbolicProgram(program.as_main(made), readings, shapes, first, tuple(formulas))
    for point, mod in zip(points, mods, strict=True):
        if not unified.is_program_of(point, mod):
            raise UnifyError(f"the program for {_text(point)} has other statements than the others")
    return unified


def _formulas(points: Sequence[Point], columns: Sequence[Sequence[int]]) -> list[Formula]:
    if len({len(column) for column in columns}) > 1:
        raise UnifyError("the programs of different extents have different statements")
    known: dict[tuple[int, ...], Formula] = {}
    rows = [*zip(*columns, strict=True)]
    for row in rows:
        if row not in known:
            known[row] = _fitted(row, points, "a number of the program")
    return [known[row] for row in rows]


def _fitted(values: tuple[int, ...], points: Sequence[Point], what: str) -> Formula:
    found = fit(values, points)
    if found is None:
        shown = "; ".join(
            f"{value} for {_text(point)}"
            for value, point in zip(values[:4], points[:4], strict=True)
        )
        raise UnifyError(f"{what} follows from the extents by no rule that is known: {shown}")
    return found


def _shapes(
    points: Sequence[Point], signatures: Sequence[Sequence[program.FunctionParameter]]
) -> tuple[tuple[Formula, ...], ...]:
    ranks = {tuple(len(one.shape) for one in signature) for signature in signatures}
    if len(ranks) > 1:
        raise UnifyError("the programs of different extents have arguments of different ranks")
    found = []
    for same in zip(*signatures, strict=True):
        axes = zip(*(one.shape for one in same), strict=True)
        found.append(
            tuple(
                _fitted(tuple(map(int, axis)), points, f"an extent of {same[0].name}")
                for axis in axes
            )
        )
    return tuple(found)


def _reading(name: str, shapes: Sequence[Sequence[Formula]]) -> Reading:
    found = [
        Reading(place, axis, inverse[1])
        for place, shape in enumerate(shapes)
        for axis, formula in enumerate(shape)
        if (inverse := formula.inverse_of()) is not None and inverse[0] == name
    ]
    if not found:
        raise UnifyError(f"no shape of an argument tells the extent {name!r}")
    return min(found, key=lambda one: (one.more != 0, one.argument, one.axis))


class _Symbols:
    """The variables of a program, and expressions of them."""

    def __init__(
        self,
        func: tirx.PrimFunc,
        readings: Mapping[str, Reading],
        shapes: Sequence[Sequence[Formula]],
    ) -> None:
        self._extents: dict[str, Any] = {}
        # What a call reads must be a variable by itself.
        self._read: dict[Formula, Any] = {}
        for name, reading in readings.items():
            size = func.params[reading.argument].ty.shape[reading.axis]
            dtype = size.ty.dtype
            read = tirx.Var(name, dtype)
            self._read[shapes[reading.argument][reading.axis]] = read
            self._extents[name] = read - reading.more if reading.more else read

    def number(self, formula: Formula, old: Any) -> Any:
        """Return the expression of a formula, of the type of the integer in its place."""
        if formula.is_constant:
            return old
        dtype = old.ty.dtype
        known = self._read.get(formula)
        if known is not None and not _differ(known, dtype):
            return known
        total = None
        for names, coefficient in formula.terms:
            value = tirx.IntImm(dtype, coefficient)
            for name in names:
                extent = (
                    tirx.Cast(dtype, self._extents[name])
                    if _differ(self._extents[name], dtype)
                    else self._extents[name]
                )
                value = extent if _is_one(value) else extent * value
            total = value if total is None else total + value
        return (
            total
            if formula.divisor == 1
            else tirx.floordiv(total, tirx.IntImm(dtype, formula.divisor))
        )


def _differ(extent: Any, dtype: Any) -> bool:
    return str(extent.ty.dtype) != str(dtype)


def _is_one(value: Any) -> bool:
    return isinstance(value, tirx.IntImm) and int(value) == 1


def _text(point: Point) -> str:
    return ", ".join(f"{name}={value}" for name, value in point.items())


def _with_integers(func: tirx.PrimFunc, replaced: Callable[[Any], Any]) -> tirx.PrimFunc:
    return structural_map(func, (tirx.IntImm, replaced), order="post")


def _integers(func: tirx.PrimFunc) -> list[int]:
    """Return the integers of a function, in the order in which it is mapped."""
    found: list[int] = []

    def note(number: Any) -> Any:
        found.append(int(number))
        return number

    _with_integers(func, note)
    return found
