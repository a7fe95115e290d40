"""One program with symbolic extents, from programs that differ in their extents only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import IRModule
from tvm_ffi import structural_equal, structural_map

from schedlang.codec import Stored
from schedlang.tvm import program
from schedlang.tvm.symbolic.fitting import Formula, Point, fit


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
