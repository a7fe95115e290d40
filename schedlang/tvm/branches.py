"""Conditions in a block's value, and the loops that they depend on."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm.s_tir.schedule import _ffi_api
from tvm_ffi import structural_walk

from schedlang.tvm.schedule import TVMSchedule, get_statement

_undefined_vars = tirx.analysis._ffi_api.UndefinedVars
_IF_THEN_ELSE = "prim.if_then_else"


def branches_along(sch: TVMSchedule, block: Any, loop: Any) -> bool:
    """Whether a condition in a block's body depends on a loop around it."""
    variable = get_statement(sch, loop).loop_var
    realize = _ffi_api.GetSBlockRealize(sch, block)
    moved = [
        axis.var
        for axis, value in zip(realize.block.iter_vars, realize.iter_values, strict=True)
        if _mentions(value, [variable])
    ]
    conditions: list[Any] = []

    def note_call(call: Any) -> None:
        if str(getattr(call.op, "name", call.op)) == _IF_THEN_ELSE:
            conditions.append(call.args[0])

    def note_branch(branch: Any) -> None:
        conditions.append(branch.condition)

    structural_walk(
        realize.block.body,
        [(Call, note_call), ((tirx.IfThenElse, tirx.Select), note_branch)],
    )
    return any(_mentions(condition, moved) for condition in conditions)


def _mentions(expr: Any, variables: list[Any]) -> bool:
    used = _undefined_vars(expr, [])[:]
    return any(variable.same_as(other) for variable in variables for other in used)
