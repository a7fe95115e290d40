"""Runs a small S-TIR program in Python, element by element, in the order of its loops.

An independent reference for results: it uses neither the library nor a compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir import Call
from tvm.ir.expr import TensorLoad
from tvm.s_tir import SBlockRealize

Array = np.ndarray[Any, Any]

_SIGNS: dict[type, str] = {
    tirx.Add: "+", tirx.Sub: "-", tirx.Mul: "*", tirx.FloorDiv: "//", tirx.FloorMod: "%",
    tirx.Div: "/", tirx.LT: "<", tirx.LE: "<=", tirx.GT: ">", tirx.GE: ">=", tirx.EQ: "==",
    tirx.NE: "!=", tirx.And: "and", tirx.Or: "or",
}  # fmt: skip
_CALLS = {"tirx.tanh": "np.tanh", "tirx.exp": "np.exp"}


def interpreted(func: Any) -> Callable[[list[Array]], None]:
    """A function that runs ``func`` on its arguments in place."""
    writer = _PythonWriter()
    names = [writer.name(parameter) for parameter in func.params]
    writer.statement(func.body, 1)
    source = f"def run({', '.join(names)}):\n" + "\n".join(writer.lines) + "\n"
    scope: dict[str, Any] = {"np": np}
    exec(source, scope)

    def run(arrays: list[Array]) -> None:
        with np.errstate(all="ignore"):
            scope["run"](*arrays)

    return run


class _PythonWriter:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self._names: dict[Any, str] = {}

    def name(self, variable: Any) -> str:
        return self._names.setdefault(variable, f"v{len(self._names)}")

    def _write(self, depth: int, line: str) -> None:
        self.lines.append("    " * depth + line)

    def statement(self, stmt: Any, depth: int) -> None:
        if isinstance(stmt, tirx.For):
            low, extent = self._expr(stmt.min), self._expr(stmt.extent)
            self._write(depth, f"for {self.name(stmt.loop_var)} in range({low}, {low} + {extent}):")
            self.statement(stmt.body, depth + 1)
        elif isinstance(stmt, SBlockRealize):
            self._block(stmt, depth)
        elif isinstance(stmt, tirx.SeqStmt):
            for child in stmt.seq:
                self.statement(child, depth)
        elif isinstance(stmt, tirx.BufferStore):
            place = self._element(stmt.buffer, stmt.indices)
            self._write(depth, f"{place} = {self._expr(stmt.value)}")
        elif isinstance(stmt, tirx.IfThenElse):
            self._write(depth, f"if {self._expr(stmt.condition)}:")
            self.statement(stmt.then_case, depth + 1)
            if stmt.else_case is not None:
                self._write(depth, "else:")
                self.statement(stmt.else_case, depth + 1)
        else:
            raise TypeError(type(stmt).__name__)

    def _block(self, realize: Any, depth: int) -> None:
        block = realize.block
        self._write(depth, f"if {self._expr(realize.predicate)}:")
        depth += 1
        first = ["True"]
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            self._write(depth, f"{self.name(axis.var)} = {self._expr(value)}")
            if int(axis.iter_type) == tirx.IterVar.CommReduce:
                first.append(f"{self.name(axis.var)} == {self._expr(axis.dom.min)}")
        for buffer in block.alloc_buffers:
            shape = tuple(int(extent) for extent in buffer.ty.shape)
            # Not NaN: elements that no stage writes are read by some programs.
            self._write(depth, f"{self.name(buffer)} = np.ones({shape}, '{buffer.ty.dtype}')")
        if block.init is not None:
            self._write(depth, f"if {' and '.join(first)}:")
            self.statement(block.init, depth + 1)
        self.statement(block.body, depth)

    def _element(self, buffer: Any, indices: Any) -> str:
        return f"{self.name(buffer)}[{', '.join(self._expr(index) for index in indices)}]"

    def _expr(self, expr: Any) -> str:
        kind = type(expr)
        if kind is tirx.Var:
            return self.name(expr)
        if kind is TensorLoad:
            return self._element(expr.source, expr.indices)
        if kind is tirx.IntImm:
            return str(int(expr.value))
        if kind is tirx.FloatImm:
            return f"np.{expr.ty}(float.fromhex('{float(expr.value).hex()}'))"
        if kind in _SIGNS:
            return f"({self._expr(expr.a)} {_SIGNS[kind]} {self._expr(expr.b)})"
        if kind in (tirx.Min, tirx.Max):
            name = "np.minimum" if kind is tirx.Min else "np.maximum"
            return f"{name}({self._expr(expr.a)}, {self._expr(expr.b)})"
        if kind is tirx.Not:
            return f"(not {self._expr(expr.a)})"
        if kind is tirx.Cast:
            return f"np.asarray({self._expr(expr.value)}).astype('{expr.ty}')[()]"
        if kind is Call and expr.op.name == "prim.if_then_else":
            condition, a, b = (self._expr(argument) for argument in expr.args)
            return f"({a} if {condition} else {b})"
        if kind is Call:
            return f"{_CALLS[expr.op.name]}({self._expr(expr.args[0])})"
        raise TypeError(kind.__name__)
