"""The skeleton of a program: its structure without the numbers that follow from shapes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlockRealize

from schedlang.tvm.graph.indices import Unencodable
from schedlang.tvm.graph.program_graph import BOOKKEEPING
from schedlang.tvm.packing import LAYOUT_FREE
from schedlang.tvm.values import called, choice_of, found_in, has_loads, loads_of, operands_of


def skeleton(func: tirx.PrimFunc) -> str | None:
    """Return the structure of a function as text; None for constructs that it has no words for.

    Equal texts mean the same loops, also those of one iteration, around the same blocks with the
    same axes, in the same order, which access buffers of the same types and ranks by indices of
    the same axes. Left out are names, which parameters are weights, extents, numbers in indices and
    values, and zeros (or another constant) around a padded tensor. Of a block that reduces nothing,
    the value counts only as the elements that it loads and the functions that it calls: such blocks
    are scheduled alike.
    """
    try:
        return "\n".join(_Walker(func).lines)
    except Unencodable:
        return None


class _Walker:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self._numbers: dict[Any, int] = {}
        self._parameters = list(func.params)
        known = (*BOOKKEEPING, LAYOUT_FREE)
        self.lines = [f"attribute {key}" for key in sorted(func.attrs.keys()) if key not in known]
        self._statement(func.body, 0)

    def _say(self, depth: int, text: str) -> None:
        self.lines.append(" " * depth + text)

    def _number(self, variable: Any) -> int:
        return self._numbers.setdefault(variable, len(self._numbers))

    def _buffer(self, buffer: Any) -> str:
        role = "p" if buffer in self._parameters else "b"
        ty = buffer.ty
        return f"{role}{self._number(buffer)}:{ty.dtype}:{len(ty.shape)}:{ty.storage_scope}"

    def _axes(self, indices: Iterable[Any]) -> str:
        """Return the axes in each index, and what it loads."""
        return ", ".join(self._index(index) for index in indices)

    def _index(self, index: Any) -> str:
        if isinstance(index, tirx.Var):
            return f"a{self._number(index)}"
        if isinstance(index, TensorLoad):
            return self._load(index)
        parts = [self._index(part) for part in operands_of(index)]
        if not parts and not isinstance(index, tirx.IntImm | tirx.FloatImm):
            raise Unencodable(f"an index of type {type(index).__name__}")
        return " ".join(sorted({word for part in parts for word in part.split(" ") if word}))

    def _load(self, load: Any) -> str:
        indices = self._axes(load.indices).replace(", ", ",").replace(" ", "+")
        return f"{self._buffer(load.source)}[{indices}]"

    def _statement(self, stmt: Any, depth: int) -> None:
        if isinstance(stmt, tirx.For):
            if stmt.thread_binding is not None:
                raise Unencodable("a bound loop")
            self._say(depth, f"for {int(stmt.kind)} {sorted(map(str, stmt.annotations))}")
            self._number(stmt.loop_var)
            self._statement(stmt.body, depth + 1)
        elif isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                self._statement(part, depth)
        elif isinstance(stmt, SBlockRealize):
            self._block(stmt, depth)
        else:
            raise Unencodable(f"a statement of type {type(stmt).__name__}")

    def _block(self, realize: Any, depth: int) -> None:
        block = realize.block
        if block.match_buffers:
            raise Unencodable("a block with match_buffers")
        values = [self._index(value) for value in realize.iter_values]
        kinds = "".join(str(int(axis.iter_type)) for axis in block.iter_vars)
        for axis in block.iter_vars:
            self._number(axis.var)
        guard = "" if isinstance(realize.predicate, tirx.IntImm) else "where"
        self._say(depth, f"block {kinds} {values} {sorted(map(str, block.annotations))} {guard}")
        if isinstance(block.body, tirx.For | tirx.SeqStmt | SBlockRealize):
            self._statement(block.body, depth + 1)
            return
        reduces = block.init is not None or any(k == "2" for k in kinds)
        for part in (block.init, block.body):
            if part is not None:
                self._store(part, reduces, depth + 1)

    def _store(self, stmt: Any, reduces: bool, depth: int) -> None:
        if not isinstance(stmt, tirx.BufferStore):
            raise Unencodable(f"a statement of type {type(stmt).__name__} in a block")
        value = self._value(stmt.value) if reduces else self._loaded(stmt.value)
        indices = self._axes(stmt.indices)
        self._say(depth, f"{self._buffer(stmt.buffer)}[{indices}] = {value}")

    def _value(self, expr: Any) -> str:
        """Return an expression without its constants."""
        expr = _without_padding(expr)
        if isinstance(expr, TensorLoad):
            return self._load(expr)
        if isinstance(expr, tirx.Var):
            return f"a{self._number(expr)}"
        name = type(expr).__name__
        if isinstance(expr, Call):
            name = called(expr)
        return f"{name}({', '.join(self._value(part) for part in operands_of(expr))})"

    def _loaded(self, value: Any) -> str:
        """Return what an expression loads, and the functions that it calls."""
        value = _without_padding(value)
        # What is called by the padded value too.
        calls = {called(call) for call in found_in(value, Call)}
        return f"{[self._load(load) for load in loads_of(value)]} {sorted(calls)}"


def _without_padding(expr: Any) -> Any:
    """Return the value inside, where an expression is a constant outside of a region."""
    while isinstance(expr, Call) and (choice := choice_of(expr)) is not None:
        condition, inside, outside = choice
        if not isinstance(outside, tirx.IntImm | tirx.FloatImm) or has_loads(condition):
            break
        expr = inside
    return expr
