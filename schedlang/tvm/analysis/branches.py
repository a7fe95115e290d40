"""Conditions in the value that a block computes, and the loops they depend on."""

from __future__ import annotations

import math
from typing import Any

from tvm import sym, tirx
from tvm.ir import Call

from schedlang.tvm.analysis.program import moved_variables
from schedlang.tvm.schedule import TVMSchedule, get_statement
from schedlang.tvm.values import choice_of, constant, extent_of, found_in, mentions


def branches_along(sch: TVMSchedule, block: Any, loop: Any) -> bool:
    """Return whether a condition in a block's body depends on a loop around it."""
    moved = moved_variables(sch, block, loop)
    return any(mentions(condition, moved) for condition, _ in _branches(sch, block))


def condition_strides(sch: TVMSchedule, block: Any) -> list[int]:
    """Return the stride of each block variable: a stride of n makes 1 of n values non-zero.

    Strides come from conditions ``floormod(index, n) == constant``, alone or joined by "and",
    outside which the value is 0. With an index linear in the variable, the stride is n divided by
    its greatest common divisor with the coefficient. Several conditions give the least common
    multiple, none gives 1.
    """
    variables = [iter_var.var for iter_var in get_statement(sch, block).iter_vars]
    strides = [1] * len(variables)
    for index, divisor in _moduli(sch, block):
        for k, variable in enumerate(variables):
            linear = sym.detect_linear_equation(index, [variable])
            coefficient = constant(linear[0]) if linear else None
            if coefficient is not None:
                period = divisor // math.gcd(divisor, coefficient)
                strides[k] = math.lcm(strides[k], period)
    return strides


def _moduli(sch: TVMSchedule, block: Any) -> list[tuple[Any, int]]:
    """Return (index, divisor) of each condition ``floormod(index, divisor) == constant``."""
    found: list[tuple[Any, int]] = []

    def note_all(condition: Any) -> None:
        if isinstance(condition, tirx.And):
            note_all(condition.a)
            note_all(condition.b)
        elif isinstance(condition, tirx.EQ):
            for side, other in ((condition.a, condition.b), (condition.b, condition.a)):
                if isinstance(side, tirx.FloorMod) and isinstance(other, tirx.IntImm):
                    divisor = extent_of(side.b)
                    if divisor > 1:
                        found.append((side.a, divisor))

    for condition, otherwise in _branches(sch, block):
        if _is_zero(otherwise):
            note_all(condition)
    return found


def _is_zero(value: Any) -> bool:
    return isinstance(value, (tirx.IntImm, tirx.FloatImm)) and float(value.value) == 0.0


def _branches(sch: TVMSchedule, block: Any) -> list[tuple[Any, Any]]:
    """Return each condition in a block's body, and the value if it does not hold."""
    found: list[tuple[Any, Any]] = []
    for node in found_in(get_statement(sch, block).body, (Call, tirx.Select, tirx.IfThenElse)):
        if isinstance(node, tirx.IfThenElse):
            found.append((node.condition, node.else_case))
        elif (choice := choice_of(node)) is not None:
            found.append((choice[0], choice[2]))
    return found
