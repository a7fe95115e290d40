"""How much a program computes: estimated work of its loops, and arithmetic operations of a call."""

from __future__ import annotations

from math import prod
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.s_tir.analysis import estimate_tir_flops
from tvm_ffi import structural_map

from schedlang.tvm.analysis.program import reuses_data
from schedlang.tvm.parts import bindings_of, nests_of, parts_of, reduces
from schedlang.tvm.program import MAIN, as_main
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import IF_THEN_ELSE, called, constant, found_in, mentions, operands_of

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


def _work(stmt: Any, repeats: int = 1) -> int:
    """Count operations and accesses to elements; calls count more, products less.

    ``repeats``: how often the loops around repeat it.
    """
    if isinstance(stmt, tirx.For):
        extent = constant(stmt.extent)
        extent = _guessed_extent(stmt, repeats) if extent is None else extent
        return extent * _work(stmt.body, repeats * max(extent, 1))
    if isinstance(stmt, tirx.While):
        return _UNKNOWN_EXTENT * (_cost(stmt.condition) + _work(stmt.body, repeats))
    if isinstance(stmt, SBlockRealize):
        work, block = _work(stmt.block.body, repeats), stmt.block
        return max(work // _REGISTER_REUSE, 1) if reduces(block) and reuses_data(block) else work
    if isinstance(stmt, tirx.IfThenElse):
        return _cost(stmt.condition) + max(_work(part, repeats) for part in parts_of(stmt))
    if isinstance(stmt, tirx.BufferStore):
        return 1 + _cost(stmt.value) + sum(_cost(index, index=True) for index in stmt.indices)
    if isinstance(stmt, tirx.Evaluate):
        return _cost(stmt.value)
    return sum(_work(part, repeats) for part in parts_of(stmt))


def _guessed_extent(loop: Any, repeats: int) -> int:
    """Guess the length of a loop that the data say: all of it reads a tensor once.

    The tensor is the largest that is read along the loop, as the entries of a sparse matrix.
    """
    along = [loop.loop_var]
    for realize in found_in(loop.body, SBlockRealize):
        along += [axis.var for axis, value in bindings_of(realize) if mentions(value, along)]
    sizes = [
        prod(constant(extent) or 1 for extent in load.source.ty.shape)
        for load in found_in(loop.body, TensorLoad)
        if any(mentions(index, along) for index in load.indices)
    ]
    inside = prod(constant(inner.extent) or 1 for inner in found_in(loop.body, tirx.For))
    return max(_UNKNOWN_EXTENT, max(sizes, default=0) // (repeats * max(inside, 1)))


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


# What these compute, TVM does not know.
_FOREIGN_CALLS = frozenset({
    "tirx.call_extern", "tirx.call_pure_extern", "tirx.tvm_call_packed", "tirx.tvm_call_cpacked",
    "tirx.tvm_call_packed_lowered", "tirx.tvm_call_cpacked_lowered",
})  # fmt: skip


def estimate_flops(mod: IRModule) -> float:
    """Return the arithmetic operations of one call; a multiply-add counts as two.

    0 where that depends on data, or TVM does not see it: with a ``while`` loop, a call to a
    function that is not TVM's, or a loop whose length depends on more than other loops. The values
    of ``T.Let`` expressions are left out.
    """
    func = mod[MAIN]
    if not _is_countable(func.body):
        return 0.0
    # TVM refuses to count the values of these.
    body = structural_map(func.body, (tirx.Let, lambda bound: bound.body))
    return float(estimate_tir_flops(as_main(func.with_body(body))))


def _is_countable(body: Any) -> bool:
    """Whether TVM knows all lengths and operations; for others it takes the largest integer."""
    foreign = _FOREIGN_CALLS.intersection(map(called, found_in(body, Call)))
    if foreign or found_in(body, tirx.While):
        return False
    loops = found_in(body, tirx.For)
    counters = {loop.loop_var for loop in loops}
    return not any(
        isinstance(part, TensorLoad) or part not in counters
        for loop in loops
        for part in found_in(loop.extent, (TensorLoad, tirx.Var))
    )
