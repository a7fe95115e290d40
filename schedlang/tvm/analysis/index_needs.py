"""What the statements of a program say about its indices and divisors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, Range, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm_ffi import WalkResult, structural_walk

from schedlang.tvm.parts import Definitions, bindings_of, parts_of
from schedlang.tvm.values import DIVISIONS, choice_of, constant, has_loads, is_integer


@dataclass(frozen=True)
class Need:
    """An expression that must stay within bounds."""

    expression: Any
    low: int | None
    high: int | None
    divisor: bool = False


class Needs(Definitions):
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

    def statement(self, stmt: Any, *, guarded: bool) -> None:
        if isinstance(stmt, tirx.For):
            self._loop(stmt, guarded)
        elif isinstance(stmt, SBlockRealize):
            self._block(stmt, guarded)
        elif isinstance(stmt, tirx.IfThenElse | tirx.While):
            self._expression(stmt.condition, guarded)
            self._statements(stmt, guarded=True)
        elif isinstance(stmt, tirx.BufferStore):
            self._access(stmt.buffer, stmt.indices, guarded)
            self._expression(stmt.value, guarded)
            self.stores.setdefault(self.tensor(stmt.buffer), []).append(stmt.value)
        elif isinstance(stmt, tirx.Bind):
            self._expression(stmt.value, guarded)
            self.bound[stmt.var] = stmt.value
        elif isinstance(stmt, tirx.Evaluate):
            self._expression(stmt.value, guarded)
        else:
            self._statements(stmt, guarded=guarded)

    def _statements(self, around: Any, *, guarded: bool) -> None:
        for part in parts_of(around):
            self.statement(part, guarded=guarded)

    def _loop(self, loop: Any, guarded: bool) -> None:
        self._expression(loop.min, guarded)
        self._expression(loop.extent, guarded)
        low, extent = self.resolved(loop.min), self.resolved(loop.extent)
        if has_loads(low) or has_loads(extent) or loop.step is not None:
            self.open[loop.loop_var] = (low, low + extent - 1)
        else:
            self._range(loop.loop_var, low, extent)
        self._statements(loop, guarded=guarded)

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
        self._statements(block, guarded=guarded)

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
