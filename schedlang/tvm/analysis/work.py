"""An estimate of the work of a program's statements, to tell small loop nests from large ones."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call, TensorLoad
from tvm.s_tir import SBlockRealize

from schedlang.tvm.analysis.program import reuses_data
from schedlang.tvm.parts import nests_of, parts_of, reduces
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import IF_THEN_ELSE, called, extent_of, operands_of

# In units of one arithmetic operation or one access to an element.
_FUNCTION_CALL = 16  # exp, tanh, sqrt
_INTEGER_DIVISION = 8
_UNKNOWN_EXTENT = 8
# A product keeps its operands in registers: it does this many times as much at the same time.
_REGISTER_REUSE = 8

_DIVISIONS = (tirx.Mod, tirx.FloorDiv, tirx.FloorMod)


def program_work(func: tirx.PrimFunc) -> list[int]:
    """Return the work of each statement directly in the root block: of each loop nest."""
    return [_work(part) for part in nests_of(func)]


def loop_work(sch: TVMSchedule, loop: Any) -> int:
    """Return the work of a loop, all its iterations together."""
    return _work(get_statement(sch, loop))


def _work(stmt: Any) -> int:
    """Count operations and accesses to elements; calls count more, products less."""
    if isinstance(stmt, tirx.For):
        return extent_of(stmt.extent, _UNKNOWN_EXTENT) * _work(stmt.body)
    if isinstance(stmt, tirx.While):
        return _UNKNOWN_EXTENT * (_cost(stmt.condition) + _work(stmt.body))
    if isinstance(stmt, SBlockRealize):
        work, block = _work(stmt.block.body), stmt.block
        return max(work // _REGISTER_REUSE, 1) if reduces(block) and reuses_data(block) else work
    if isinstance(stmt, tirx.IfThenElse):
        return _cost(stmt.condition) + max(map(_work, parts_of(stmt)))
    if isinstance(stmt, tirx.BufferStore):
        return 1 + _cost(stmt.value) + sum(_cost(index, index=True) for index in stmt.indices)
    if isinstance(stmt, tirx.Evaluate):
        return _cost(stmt.value)
    return sum(map(_work, parts_of(stmt)))


def _cost(expr: Any, *, index: bool = False) -> int:
    """Count in an expression; arithmetic in an index is free, but not what it loads."""
    if isinstance(expr, tirx.Let):
        return _cost(expr.value, index=index) + _cost(expr.body, index=index)
    parts = operands_of(expr)
    if isinstance(expr, TensorLoad):
        return 1 + sum(_cost(part, index=True) for part in parts)
    if isinstance(expr, Call):
        own = 1 if called(expr) == IF_THEN_ELSE else _FUNCTION_CALL
    elif index or not parts:
        own = 0
    else:
        own = _INTEGER_DIVISION if isinstance(expr, _DIVISIONS) else 1
    return own + sum(_cost(part, index=index) for part in parts)
