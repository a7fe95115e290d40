"""Conditions in a block's value, and the loops that they depend on."""

from __future__ import annotations

import math
from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm_ffi import structural_walk

from schedlang.tvm.analysis import mentions, moved_variables
from schedlang.tvm.schedule import TVMSchedule, get_statement

_IF_THEN_ELSE = "prim.if_then_else"


def branches_along(sch: TVMSchedule, block: Any, loop: Any) -> bool:
    """Whether a condition in a block's body depends on a loop around it."""
    moved = moved_variables(sch, block, loop)
    return any(mentions(condition, moved) for condition in _conditions(sch, block))


def condition_strides(sch: TVMSchedule, block: Any) -> list[int]:
    """For each variable of a block, the modulus of it that conditions in its body ask for.

    The least common multiple where there are several; 1 where there is none.
    """
    moduli: list[tuple[Any, int]] = []

    def note(modulo: Any) -> None:
        divisor = getattr(modulo.b, "value", None)
        if divisor is not None and int(divisor) > 0:
            moduli.append((modulo.a, int(divisor)))

    for condition in _conditions(sch, block):
        structural_walk(condition, (tirx.FloorMod, note))
    variables = [iter_var.var for iter_var in get_statement(sch, block).iter_vars]
    return [
        math.lcm(*(divisor for index, divisor in moduli if mentions(index, [variable])))
        for variable in variables
    ]


def _conditions(sch: TVMSchedule, block: Any) -> list[Any]:
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
    return conditions
