"""The values that a program can take in its integer arguments without leaving its tensors.

``Needs`` lists what the statements demand of indices and divisors; ``inverse_bounds`` turns that
into bounds of the arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tvm import tirx
from tvm.error import InternalError
from tvm.ir import Call, IRModule, Range, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer, pattern
from tvm_ffi import WalkResult, structural_map, structural_walk

from schedlang.tvm.analysis.inverse_bounds import Bounds, InverseBounds, NoBounds
from schedlang.tvm.program import MAIN
from schedlang.tvm.statements import BufferDefinitions, bindings_of, table_of
from schedlang.tvm.values import (
    DIVISIONS,
    choice_of,
    constant,
    extent_of,
    found_outside_loads,
    has_loads,
    is_integer,
    loads_of,
    substituted,
)

# An index that is computed from a tensor that is computed from a tensor, and so on.
_DEEPEST = 8


class ValueRange(NamedTuple):
    """The values of an integer argument that a program can take.

    Attributes
    ----------
    low, high: lowest and highest value; None where the program sets none.
    ascending: the elements are offsets, each at least as high as the one before.
    """

    low: int | None = None
    high: int | None = None
    ascending: bool = False


@dataclass(frozen=True)
class IntegerUses:
    """How a program uses its integer arguments, by position.

    Attributes
    ----------
    ranges: values with which all accesses stay inside their tensors and no divisor is 0, where that
        can be read off the program.
    indices: arguments that an index, or the length of a loop, depends on.
    divisors: arguments that a divisor of integers depends on.
    free: arguments that may have any value of their type that is within their ``ranges``.
    """

    ranges: Mapping[int, ValueRange]
    indices: frozenset[int]
    divisors: frozenset[int]
    free: frozenset[int] = frozenset()


def integer_uses(mod: IRModule) -> IntegerUses:
    """Find out which values the integer arguments of an unscheduled program may have."""
    func = mod[MAIN]
    if not any(isinstance(var.ty, tirx.BufferType) and is_integer(var) for var in func.params):
        return IntegerUses({}, frozenset(), frozenset())
    collector = Needs()
    for stmt, place in table_of(func.body):
        collector.note_statement(stmt, guarded=place.is_guarded)
    return _UseReader(collector, list(func.params)).read()


class _UseReader:
    """Reads ranges of the arguments off what a collector found."""

    def __init__(self, collector: Needs, parameters: list[Any]) -> None:
        self._collector = collector
        self._positions = {
            var: place
            for place, var in enumerate(parameters)
            if isinstance(var.ty, tirx.BufferType) and is_integer(var)
        }
        self._inverse = InverseBounds(collector.analyzer, self._demand)
        self._demanded: list[tuple[int, Bounds]] = []
        self._depth = 0
        self._ranges: dict[int, ValueRange] = {}
        self._unread: list[Any] = []

    def read(self) -> IntegerUses:
        collector = self._collector
        for need in collector.needs:
            self._read(need, guarded=False)
        for need in collector.guarded:
            self._read(need, guarded=True)
        for low, last in collector.open.values():
            self._note_offsets(last - low)
        needs = [*collector.needs, *collector.guarded]
        lengths = [part for ends in collector.open.values() for part in ends]
        indices = [need.expression for need in needs if not need.divisor] + lengths
        divisors = [need.expression for need in needs if need.divisor]
        bound = self._used(self._unread + lengths)
        free = frozenset(self._positions.values()) - bound
        return IntegerUses(self._ranges, self._used(indices), self._used(divisors), free)

    def _read(self, need: Need, *, guarded: bool) -> None:
        """Narrow the ranges as ``need`` says; not at all where it cannot be read or met.

        Nor where it is met by negative numbers only, and guarded: they count from the end there.
        """
        expression = self._collector.resolved(need.expression)
        self._demanded = []
        try:
            for part, low, high in self._parts(expression, need.low, need.high):
                self._inverse.require(self._collector.analyzer.simplify(part), low, high)
        except (NoBounds, InternalError):  # of the latter kind is a division by a constant 0
            self._unread.append(need.expression)
            return
        narrowed = dict(self._ranges)
        for position, (low, high) in self._demanded:
            known = narrowed.get(position, ValueRange())
            lows = [bound for bound in (known.low, low) if bound is not None]
            highs = [bound for bound in (known.high, high) if bound is not None]
            found = ValueRange(max(lows, default=None), min(highs, default=None))
            crossed = None not in found[:2] and found.low > found.high  # type: ignore[operator]
            if crossed or (guarded and found.high is not None and found.high < 0):
                self._unread.append(need.expression)
                return
            narrowed[position] = found
        self._ranges = narrowed

    def _parts(
        self, expression: Any, low: int | None, high: int | None
    ) -> list[tuple[Any, int | None, int | None]]:
        """Put the first and the last value in the place of loops whose range depends on data."""
        variables = found_outside_loads(expression, tirx.Var)
        loop = next((var for var in variables if var in self._collector.open), None)
        if loop is None:
            return [(expression, low, high)]
        if not self._grows_with(expression, loop):
            raise NoBounds(str(expression))
        first, last = (substituted(expression, {loop: end}) for end in self._collector.open[loop])
        return [*self._parts(first, low, None), *self._parts(last, None, high)]

    def _grows_with(self, expression: Any, loop: Any) -> bool:
        opaque = structural_map(expression, (TensorLoad, lambda load: tirx.Var("load", load.ty)))
        factors = pattern.detect_linear_equation(opaque, [loop])
        return len(factors) > 0 and extent_of(factors[0]) > 0

    def _demand(self, load: Any, bounds: Bounds) -> None:
        buffer = self._collector.tensor(load.source)
        if not is_integer(buffer):
            raise NoBounds(str(load))
        position = self._positions.get(buffer)
        if position is not None:
            self._demanded.append((position, bounds))
        stored = self._collector.stores.get(buffer, ())
        if self._depth > _DEEPEST:
            raise NoBounds(str(load))
        self._depth += 1
        try:
            for value in stored:
                if not self._reads(value, buffer):
                    self._inverse.require(self._collector.resolved(value), *bounds)
        finally:
            self._depth -= 1
        if position is None and any(self._reads(value, buffer) for value in stored):
            raise NoBounds(str(load))

    def _reads(self, value: Any, buffer: Any) -> bool:
        return any(self._collector.tensor(load.source).same_as(buffer) for load in loads_of(value))

    def _note_offsets(self, length: Any) -> None:
        """Note the argument that holds where rows begin and end: lengths are differences in it."""
        try:
            loads = loads_of(self._collector.analyzer.simplify(length))
        except InternalError:
            return
        places = [self._positions[load.source] for load in loads if load.source in self._positions]
        for place in {place for place in places if places.count(place) > 1}:
            self._ranges[place] = self._ranges.get(place, ValueRange())._replace(ascending=True)

    def _used(self, expressions: list[Any]) -> frozenset[int]:
        """Return the arguments that the expressions read, or that tensors they read come from."""
        pending = [self._collector.resolved(expression) for expression in expressions]
        used, seen = set(), set()
        while pending:
            for load in loads_of(pending.pop()):
                buffer = self._collector.tensor(load.source)
                if buffer in seen:
                    continue
                seen.add(buffer)
                if buffer in self._positions:
                    used.add(self._positions[buffer])
                pending += map(self._collector.resolved, self._collector.stores.get(buffer, ()))
        return frozenset(used)


# -- What the statements of a program say about its indices and divisors --------------------------


@dataclass(frozen=True)
class Need:
    """An expression that must stay within bounds."""

    expression: Any
    low: int | None
    high: int | None
    divisor: bool = False


class Needs(BufferDefinitions):
    """What the statements of a program say about indices and divisors.

    Attributes
    ----------
    needs: of statements that always run.
    guarded: of statements that run under a condition, which may exclude what would go wrong.
    stores: the values that are stored in each buffer.
    open: loops whose range depends on data: first and last value.
    """

    def __init__(self) -> None:
        super().__init__()
        self.analyzer = Analyzer()
        self.needs: list[Need] = []
        self.guarded: list[Need] = []
        self.stores: dict[Any, list[Any]] = {}
        self.open: dict[Any, tuple[Any, Any]] = {}

    def note_statement(self, stmt: Any, *, guarded: bool) -> None:
        """Note what a statement says, but not those inside it; these have to follow."""
        if isinstance(stmt, tirx.For):
            self._loop(stmt, guarded)
        elif isinstance(stmt, SBlockRealize):
            self._block(stmt, guarded)
        elif isinstance(stmt, tirx.IfThenElse | tirx.While):
            self._expression(stmt.condition, guarded)
        elif isinstance(stmt, tirx.BufferStore):
            self._access(stmt.buffer, stmt.indices, guarded)
            self._expression(stmt.value, guarded)
            self.stores.setdefault(self.tensor(stmt.buffer), []).append(stmt.value)
        elif isinstance(stmt, tirx.Bind):
            self._expression(stmt.value, guarded)
            self.bound[stmt.var] = stmt.value
        elif isinstance(stmt, tirx.Evaluate):
            self._expression(stmt.value, guarded)

    def _loop(self, loop: Any, guarded: bool) -> None:
        self._expression(loop.min, guarded)
        self._expression(loop.extent, guarded)
        low, extent = self.resolved(loop.min), self.resolved(loop.extent)
        if has_loads(low) or has_loads(extent) or loop.step is not None:
            self.open[loop.loop_var] = (low, low + extent - 1)
        else:
            self._range(loop.loop_var, low, extent)

    def _block(self, realize: Any, guarded: bool) -> None:
        block = realize.block
        for axis, value in bindings_of(realize):
            self._expression(value, guarded)
            self._within(value, axis.dom.extent, guarded)
            self._range(axis.var, axis.dom.min, axis.dom.extent)
        self._expression(realize.predicate, guarded)
        guarded |= not isinstance(realize.predicate, tirx.IntImm)
        self.note(block)
        for match in block.match_buffers:
            for dom, size in zip(match.source.region, match.source.source.ty.shape, strict=True):
                self._within(dom.min, size - dom.extent + 1, guarded)

    def _expression(self, expression: Any, guarded: bool) -> None:
        """Note the indices and divisors in an expression."""

        def load(node: Any) -> None:
            self._access(node.source, node.indices, guarded)

        def division(node: Any) -> None:
            if is_integer(node):
                self._note(Need(node.b, 1, None, divisor=True), guarded)

        def branches(node: Any) -> WalkResult | None:
            parts = choice_of(node)
            if parts is None:
                return None
            for part, under in zip(parts, (guarded, True, True), strict=True):
                self._expression(part, under)
            return WalkResult.SKIP

        kinds = [
            ((Call, tirx.Select), branches),
            (TensorLoad, load),
            (DIVISIONS, division),
        ]
        structural_walk(expression, kinds, order="pre")

    def _access(self, buffer: Any, indices: Any, guarded: bool) -> None:
        for index, extent in zip(indices, buffer.ty.shape, strict=True):
            self._within(index, extent, guarded)

    def _within(self, index: Any, extent: Any, guarded: bool) -> None:
        size = constant(self.analyzer.simplify(extent))
        self._note(Need(index, 0, None if size is None else size - 1), guarded)

    def _note(self, need: Need, guarded: bool) -> None:
        (self.guarded if guarded else self.needs).append(need)

    def _range(self, variable: Any, low: Any, extent: Any) -> None:
        self.analyzer.bind(variable, Range.from_min_extent(low, extent), allow_override=True)
