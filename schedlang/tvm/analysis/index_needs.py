"""What the statements of a program say about its indices and divisors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, Range
from tvm.ir.expr import TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm_ffi import WalkResult, structural_map, structural_walk

from schedlang.tvm.analysis.inverse_bounds import IF_THEN_ELSE, has_loads, is_integer

_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod)


@dataclass(frozen=True)
class Need:
    """An expression that must stay within bounds."""

    expression: Any
    low: int | None
    high: int | None
    divisor: bool = False


class Needs:
    """What the statements of a program say about indices and divisors.

    Attributes
    ----------
    needs: of statements that always run.
    guarded: of statements that run under a condition, which may exclude what would go wrong.
    stores: the values that are stored in each buffer.
    bound: variables, and the expressions that they stand for.
    regions: names for a part of a tensor, and that tensor.
    open: loops whose range depends on data: first and last value.
    """

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.needs: list[Need] = []
        self.guarded: list[Need] = []
        self.stores: dict[Any, list[Any]] = {}
        self.bound: dict[Any, Any] = {}
        self.regions: dict[Any, Any] = {}
        self.open: dict[Any, tuple[Any, Any]] = {}

    def statement(self, stmt: Any, *, guarded: bool) -> None:
        if isinstance(stmt, tirx.SeqStmt):
            for child in stmt.seq:
                self.statement(child, guarded=guarded)
        elif isinstance(stmt, tirx.For):
            self._loop(stmt, guarded)
        elif isinstance(stmt, SBlockRealize):
            self._block(stmt, guarded)
        elif isinstance(stmt, tirx.IfThenElse):
            self._expression(stmt.condition, guarded)
            for case in (stmt.then_case, stmt.else_case):
                if case is not None:
                    self.statement(case, guarded=True)
        elif isinstance(stmt, tirx.While):
            self._expression(stmt.condition, guarded)
            self.statement(stmt.body, guarded=True)
        elif isinstance(stmt, tirx.BufferStore):
            self._access(stmt.buffer, stmt.indices, guarded)
            self._expression(stmt.value, guarded)
            self.stores.setdefault(self.tensor(stmt.buffer), []).append(stmt.value)
        elif isinstance(stmt, tirx.Bind):
            self._expression(stmt.value, guarded)
            self.bound[stmt.var] = stmt.value
        elif isinstance(stmt, tirx.Evaluate):
            self._expression(stmt.value, guarded)
        elif isinstance(stmt, tirx.AttrStmt):
            self.statement(stmt.body, guarded=guarded)

    def _loop(self, loop: Any, guarded: bool) -> None:
        self._expression(loop.min, guarded)
        self._expression(loop.extent, guarded)
        low, extent = self.resolved(loop.min), self.resolved(loop.extent)
        if has_loads(low) or has_loads(extent) or loop.step is not None:
            self.open[loop.loop_var] = (low, low + extent - 1)
        else:
            self._range(loop.loop_var, low, extent)
        self.statement(loop.body, guarded=guarded)

    def _block(self, realize: Any, guarded: bool) -> None:
        block = realize.block
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            self._expression(value, guarded)
            self._within(value, axis.dom.extent, guarded)
            self._range(axis.var, axis.dom.min, axis.dom.extent)
        self._expression(realize.predicate, guarded)
        guarded |= not isinstance(realize.predicate, tirx.IntImm)
        for match in block.match_buffers:
            self.regions[match.buffer] = match.source.source
            for dom, size in zip(match.source.region, match.source.source.ty.shape, strict=True):
                self._within(dom.min, size - dom.extent + 1, guarded)
        if block.init is not None:
            self.statement(block.init, guarded=guarded)
        self.statement(block.body, guarded=guarded)

    def _expression(self, expression: Any, guarded: bool) -> None:
        """Note the indices and divisors in an expression."""

        def load(node: Any) -> None:
            self._access(node.source, node.indices, guarded)

        def division(node: Any) -> None:
            if is_integer(node):
                self._note(Need(node.b, 1, None, divisor=True), guarded)

        def branches(node: Any) -> WalkResult | None:
            if isinstance(node, tirx.Select):
                parts = (node.condition, node.true_value, node.false_value)
            elif str(getattr(node.op, "name", "")) == IF_THEN_ELSE:
                parts = tuple(node.args)
            else:
                return None
            for part, under in zip(parts, (guarded, True, True), strict=True):
                self._expression(part, under)
            return WalkResult.SKIP

        kinds = [
            ((Call, tirx.Select), branches),
            (TensorLoad, load),
            (_DIVISIONS, division),
        ]
        structural_walk(expression, kinds, order="pre")

    def _access(self, buffer: Any, indices: Any, guarded: bool) -> None:
        for index, extent in zip(indices, buffer.ty.shape, strict=True):
            self._within(index, extent, guarded)

    def _within(self, index: Any, extent: Any, guarded: bool) -> None:
        high = getattr(self.analyzer.simplify(extent), "value", None)
        self._note(Need(index, 0, None if high is None else int(high) - 1), guarded)

    def _note(self, need: Need, guarded: bool) -> None:
        (self.guarded if guarded else self.needs).append(need)

    def _range(self, variable: Any, low: Any, extent: Any) -> None:
        self.analyzer.bind(variable, Range.from_min_extent(low, extent), allow_override=True)

    def tensor(self, buffer: Any) -> Any:
        """Return the tensor that a buffer is, or is a part of."""
        return self.tensor(self.regions[buffer]) if buffer in self.regions else buffer

    def resolved(self, expression: Any) -> Any:
        """Put what they stand for in the place of variables that are bound by a statement."""

        def replaced(var: Any) -> Any:
            return self.resolved(self.bound[var]) if var in self.bound else var

        return structural_map(expression, (tirx.Var, replaced)) if self.bound else expression
