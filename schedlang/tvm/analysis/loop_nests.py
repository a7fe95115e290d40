"""The statements of a scheduled program: the loops around each store, and what it accesses.

Machine-independent facts, for estimates of latency. Indices are read as sums of multiples of loop
variables; what is none is approximated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlockRealize

from schedlang.tvm.schedule import TVMSchedule, get_loops, get_module, get_realize, get_statement
from schedlang.tvm.statements import Place, bindings_of, table_of
from schedlang.tvm.values import (
    IF_THEN_ELSE,
    called,
    dtype_of,
    element_bytes,
    extent_of,
    operands_of,
)

Kind = Literal["serial", "parallel", "vectorized", "unrolled"]
_KINDS: dict[int, Kind] = {1: "parallel", 2: "vectorized", 3: "unrolled"}

# Calls that are an instruction or two.
_SIMPLE_CALLS = (
    "reinterpret", "shift", "bitwise", "fma", "fabs", "sqrt", "floor", "ceil", "round", "trunc",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class NestLoop:
    """A loop around a statement.

    Attributes
    ----------
    number: equal for the same loop around several statements.
    extent: iterations; 1 where it is not constant.
    """

    number: int
    extent: int
    kind: Kind


@dataclass(frozen=True, slots=True)
class NestAccess:
    """An access to one element of a buffer in each iteration.

    Attributes
    ----------
    buffer: number of the buffer in this program.
    intermediate: whether the program allocates it.
    bytes: size of an element.
    strides: elements by which one step of a loop moves it, for each loop around the statement. A
        fraction says that it moves once in several steps.
    stores: whether it writes.
    """

    buffer: int
    intermediate: bool
    bytes: int
    strides: tuple[float, ...]
    stores: bool


@dataclass(frozen=True, slots=True)
class Statement:
    """A store of one element and the loops around it, outermost first.

    Attributes
    ----------
    operations: arithmetic operations of one iteration, without those of indices and conditions.
    calls: calls of functions in one iteration.
    guards: for each condition in it, the positions of the loops that it depends on.
    accesses: the loads, and the store last.
    """

    loops: tuple[NestLoop, ...]
    operations: int
    calls: int
    guards: tuple[frozenset[int], ...]
    accesses: tuple[NestAccess, ...]


def statements(func: tirx.PrimFunc) -> list[Statement]:
    """Return the statements of a program in order."""
    return _StatementReader(func).read(func.body, Place())


def statement_of(sch: TVMSchedule, block: Any) -> Statement | None:
    """Return the statement of a block with the loops around it; None if it has several or none."""
    loops = [get_statement(sch, loop) for loop in get_loops(sch, block)]
    reader = _StatementReader(get_module(sch)["main"])
    found = reader.read(get_realize(sch, block), Place.in_loops(loops))
    return found[0] if len(found) == 1 else None


class _AroundPlace(NamedTuple):
    """The loops around a statement, their extents, and the loops that each guard depends on."""

    loops: tuple[NestLoop, ...]
    extents: list[int]
    guards: tuple[frozenset[int], ...]


class _StatementReader:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self._parameters = set(func.params)
        self._buffers: dict[Any, int] = {}
        self._steps: dict[Any, Steps] = {}
        self._nests: dict[Place, _AroundPlace] = {}

    def read(self, stmt: Any, place: Place) -> list[Statement]:
        """Return the statements in one that is at a place."""
        found = []
        for one, inside in table_of(stmt, place):
            nest = self._nest(inside)
            if isinstance(one, tirx.BufferStore):
                found.append(self._statement(one, nest))
            elif isinstance(one, SBlockRealize):
                bound = {
                    axis.var: steps_of(value, self._steps, nest.extents)
                    for axis, value in bindings_of(one)
                }
                self._steps.update(bound)
            elif isinstance(one, tirx.Bind):
                self._steps[one.var] = steps_of(one.value, self._steps, nest.extents)
        return found

    def _nest(self, place: Place) -> _AroundPlace:
        """Return the loops and guards of a place, whose variables have steps from then on."""
        found = self._nests.get(place)
        if found is None:
            found = self._nests[place] = self._entered(place)
        return found

    def _entered(self, place: Place) -> _AroundPlace:
        if place.outer is None:
            return _AroundPlace((), [], ())
        own, outer = place.around[-1], self._nest(place.outer)
        if isinstance(own, tirx.For):
            extent = extent_of(own.extent, 1)
            self._steps[own.loop_var] = {len(outer.loops): 1.0} if extent > 1 else {}
            loop = NestLoop(len(self._nests), extent, _KINDS.get(int(own.kind), "serial"))
            return _AroundPlace((*outer.loops, loop), [*outer.extents, extent], outer.guards)
        condition = own.predicate if isinstance(own, SBlockRealize) else own.condition
        if isinstance(own, tirx.While) or (
            isinstance(own, SBlockRealize) and isinstance(condition, tirx.IntImm)
        ):
            return outer
        moved = frozenset(loops_of([condition], self._steps, outer.extents))
        return outer._replace(guards=(*outer.guards, moved))

    def _statement(self, stmt: Any, nest: _AroundPlace) -> Statement:
        value = _Value(nest.extents, self._steps)
        value.read(stmt.value)
        for index in stmt.indices:
            value.read_index(index)
        found = [
            self._access(load.source, load.indices, value, stores=False) for load in value.loads
        ]
        found.append(self._access(stmt.buffer, stmt.indices, value, stores=True))
        guards = (*nest.guards, *value.guards)
        return Statement(nest.loops, value.operations, value.calls, guards, tuple(found))

    def _access(self, buffer: Any, indices: Any, value: _Value, *, stores: bool) -> NestAccess:
        size = 1.0
        moved: Steps = {}
        for index, extent in zip(reversed(indices), reversed(buffer.ty.shape), strict=True):
            for position, step in steps_of(index, value.steps, value.extents).items():
                moved[position] = moved.get(position, 0.0) + step * size
            size *= extent_of(extent, 1)
        return NestAccess(
            self._buffers.setdefault(buffer, len(self._buffers)),
            buffer not in self._parameters,
            element_bytes(dtype_of(buffer)),
            tuple(moved.get(position, 0.0) for position in range(len(value.extents))),
            stores,
        )


class _Value:
    """What a stored value is made of."""

    def __init__(self, extents: list[int], steps: Mapping[Any, Steps]) -> None:
        self.extents = extents
        self.steps = steps
        self.operations = 0
        self.calls = 0
        self.guards: list[frozenset[int]] = []
        self.loads: list[Any] = []

    def read(self, expr: Any) -> None:
        if isinstance(expr, TensorLoad):
            self.loads.append(expr)
            for index in expr.indices:
                self.read_index(index)
        elif isinstance(expr, tirx.Let):
            self.read(expr.value)
            self.read(expr.body)
        elif not isinstance(expr, tirx.Not):
            parts = operands_of(expr)
            if not isinstance(expr, Call):
                self.operations += bool(parts)
            elif called(expr) == IF_THEN_ELSE:
                loops = loops_of(parts[:1], self.steps, self.extents)
                self.guards.append(frozenset(loops))
                del parts[0]
            elif called(expr).rpartition(".")[2].startswith(_SIMPLE_CALLS):
                self.operations += 1
            else:
                self.calls += 1
            for part in parts:
                self.read(part)

    def read_index(self, expr: Any) -> None:
        """Note the loads in an index, such as the row that ``take`` looks up."""
        if isinstance(expr, TensorLoad):
            self.read(expr)
        elif not isinstance(expr, tirx.Not | tirx.Select):
            for part in operands_of(expr):
                self.read_index(part)


# -- By how much one step of a loop moves an index of a program -----------------------------------

Steps = dict[int, float]
"""By how much one step of a loop moves an index, by the number of the loop."""

_INDEX = (tirx.Var, tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod)


def steps_of(expr: Any, known: Mapping[Any, Steps], extents: Sequence[int]) -> Steps:
    """Return by how much one step of each loop moves an index."""
    if isinstance(expr, tirx.Var):
        return known.get(expr, {})
    if isinstance(expr, tirx.Add | tirx.Sub):
        left, right = steps_of(expr.a, known, extents), steps_of(expr.b, known, extents)
        if not right:
            return left
        sign = 1.0 if isinstance(expr, tirx.Add) else -1.0
        found = dict(left)
        for position, step in right.items():
            found[position] = found.get(position, 0.0) + sign * step
        return found
    if isinstance(expr, tirx.Mul):
        for factor, other in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(factor, tirx.IntImm):
                by = float(factor.value)
                return {k: step * by for k, step in steps_of(other, known, extents).items()}
    if isinstance(expr, tirx.FloorDiv) and isinstance(expr.b, tirx.IntImm):
        by, moved = float(expr.b.value), steps_of(expr.a, known, extents)
        # A loop that moves it at all, in one of several iterations, counts as a fraction.
        return {k: s / by for k, s in moved.items() if abs(s) * (extents[k] - 1) >= by}
    if isinstance(expr, tirx.FloorMod) and isinstance(expr.b, tirx.IntImm):
        by, moved = float(expr.b.value), steps_of(expr.a, known, extents)
        return {k: s for k, s in moved.items() if s % by}
    if isinstance(expr, tirx.Min) and isinstance(expr.b, tirx.IntImm):
        return steps_of(expr.a, known, extents)  # of a tile that starts earlier if it is the last
    if isinstance(expr, tirx.IntImm):
        return {}
    return dict.fromkeys(loops_of(operands_of(expr), known, extents), 1.0)


def loops_of(exprs: list[Any], known: Mapping[Any, Steps], extents: Sequence[int]) -> Steps:
    """Return the loops that move any of some expressions, as the keys of the result."""
    found: Steps = {}
    for expr in exprs:
        if isinstance(expr, _INDEX):
            moved = steps_of(expr, known, extents)
            found.update((k, step) for k, step in moved.items() if step)
        else:
            found.update(loops_of(operands_of(expr), known, extents))
    return found
