"""An estimate of the work of a program's statements, to tell small loop nests from large ones."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.tirx.function import PrimFunc

from schedlang.tvm.analysis.program import reuses_data
from schedlang.tvm.schedule import TVMSchedule, get_statement

# In units of one arithmetic operation or one access to an element.
_FUNCTION_CALL = 16  # exp, tanh, sqrt
_INTEGER_DIVISION = 8
_UNKNOWN_EXTENT = 8
# A product keeps its operands in registers: it does this many times as much at the same time.
_REGISTER_REUSE = 8

_BINARY = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Min, tirx.Max, tirx.EQ, tirx.NE, tirx.LT, tirx.LE,
    tirx.GT, tirx.GE, tirx.And, tirx.Or,
)  # fmt: skip
_DIVISIONS = (tirx.Mod, tirx.FloorDiv, tirx.FloorMod)


def program_work(func: PrimFunc) -> list[int]:
    """Return the work of each statement directly in the root block: of each loop nest."""
    body = func.body.block.body if isinstance(func.body, SBlockRealize) else func.body
    return [_work(part) for part in (body.seq if isinstance(body, tirx.SeqStmt) else [body])]


def loop_work(sch: TVMSchedule, loop: Any) -> int:
    """Return the work of a loop, all its iterations together."""
    return _work(get_statement(sch, loop))


def _work(stmt: Any) -> int:
    """Count operations and accesses to elements; calls count more, products less."""
    if isinstance(stmt, tirx.For):
        return int(getattr(stmt.extent, "value", _UNKNOWN_EXTENT)) * _work(stmt.body)
    if isinstance(stmt, tirx.While):
        return _UNKNOWN_EXTENT * (_cost(stmt.condition) + _work(stmt.body))
    if isinstance(stmt, tirx.SeqStmt):
        return sum(_work(part) for part in stmt.seq)
    if isinstance(stmt, SBlockRealize):
        work = _work(stmt.block)
        reduces = any(int(a.iter_type) == tirx.IterVar.CommReduce for a in stmt.block.iter_vars)
        return max(work // _REGISTER_REUSE, 1) if reduces and reuses_data(stmt.block) else work
    if isinstance(stmt, tirx.IfThenElse):
        parts = [part for part in (stmt.then_case, stmt.else_case) if part is not None]
        return _cost(stmt.condition) + max(_work(part) for part in parts)
    if isinstance(stmt, tirx.BufferStore):
        return 1 + _cost(stmt.value) + sum(_cost(index, index=True) for index in stmt.indices)
    if isinstance(stmt, tirx.Evaluate):
        return _cost(stmt.value)
    if isinstance(stmt, SBlock | tirx.AttrStmt):
        return _work(stmt.body)
    return 0


def _cost(expr: Any, *, index: bool = False) -> int:
    """Count in an expression; arithmetic in an index is free, but not what it loads."""
    if isinstance(expr, TensorLoad):
        return 1 + sum(_cost(part, index=True) for part in expr.indices)
    if isinstance(expr, _BINARY):
        return (not index) + _cost(expr.a, index=index) + _cost(expr.b, index=index)
    if isinstance(expr, _DIVISIONS):
        own = 0 if index else _INTEGER_DIVISION
        return own + _cost(expr.a, index=index) + _cost(expr.b, index=index)
    if isinstance(expr, tirx.Cast):
        return (not index) + _cost(expr.value, index=index)
    if isinstance(expr, tirx.Not):
        return (not index) + _cost(expr.a, index=index)
    if isinstance(expr, tirx.Select):
        parts = (expr.condition, expr.true_value, expr.false_value)
        return (not index) + sum(_cost(part, index=index) for part in parts)
    if isinstance(expr, tirx.Let):
        return _cost(expr.value, index=index) + _cost(expr.body, index=index)
    if isinstance(expr, Call):
        own = 1 if str(getattr(expr.op, "name", "")) == "prim.if_then_else" else _FUNCTION_CALL
        return own + sum(_cost(part, index=index) for part in expr.args)
    return 0
