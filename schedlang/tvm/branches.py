"""Conditions in a block's value, and the loops that they depend on."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm_ffi import structural_walk

from schedlang.tvm.analysis import mentions, moved_variables
from schedlang.tvm.schedule import TVMSchedule, get_statement

_IF_THEN_ELSE = "prim.if_then_else"


def branches_along(sch: TVMSchedule, block: Any, loop: Any) -> bool:
    """Whether a condition in a block's body depends on a loop around it."""
    conditions: list[Any] = []

    def note_call(call: Any) -> None:
        if str(getattr(call.op, "name", call.op)) == _IF_THEN_ELSE:
            conditions.append(call.args[0])

    def note_branch(branch: Any) -> None:
        conditions.append(branch.condition)

    structural_walk(
        get_statement(sch, block).body,
        [(Call, note_call), ((tirx.IfThenElse, tirx.Select), note_branch)],
    )
    moved = moved_variables(sch, block, loop)
    return any(mentions(condition, moved) for condition in conditions)
