"""By how much one step of a loop moves an index of a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tvm import tirx

from schedlang.tvm.values import operands_of

Steps = dict[int, float]
"""By how much one step of a loop moves an index, by the number of the loop."""

_INDEX = (tirx.Var, tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod)


def steps_of(expr: Any, known: Mapping[Any, Steps], extents: Sequence[int]) -> Steps:
    """Return by how much one step of each loop moves an index."""
    if isinstance(expr, tirx.Var):
        return known.get(expr, {})
    if isinstance(expr, tirx.Add | tirx.Sub):
        left, right = steps_of(expr.a, known, extents), steps_of(expr.b, known, extents)
        if not right:
            return left
        sign = 1.0 if isinstance(expr, tirx.Add) else -1.0
        found = dict(left)
        for position, step in right.items():
            found[position] = found.get(position, 0.0) + sign * step
        return found
    if isinstance(expr, tirx.Mul):
        for factor, other in ((expr.a, expr.b), (expr.b, expr.a)):
            if isinstance(factor, tirx.IntImm):
                by = float(factor.value)
                return {k: step * by for k, step in steps_of(other, known, extents).items()}
    if isinstance(expr, tirx.FloorDiv) and isinstance(expr.b, tirx.IntImm):
        by, moved = float(expr.b.value), steps_of(expr.a, known, extents)
        # A loop that moves it at all, in one of several iterations, counts as a fraction.
        return {k: s / by for k, s in moved.items() if abs(s) * (extents[k] - 1) >= by}
    if isinstance(expr, tirx.FloorMod) and isinstance(expr.b, tirx.IntImm):
        by, moved = float(expr.b.value), steps_of(expr.a, known, extents)
        return {k: s for k, s in moved.items() if s % by}
    if isinstance(expr, tirx.Min) and isinstance(expr.b, tirx.IntImm):
        return steps_of(expr.a, known, extents)  # of a tile that starts earlier if it is the last
    if isinstance(expr, tirx.IntImm):
        return {}
    return dict.fromkeys(loops_of(operands_of(expr), known, extents), 1.0)


def loops_of(exprs: list[Any], known: Mapping[Any, Steps], extents: Sequence[int]) -> Steps:
    """Return the loops that move any of some expressions, as the keys of the result."""
    found: Steps = {}
    for expr in exprs:
        if isinstance(expr, _INDEX):
            moved = steps_of(expr, known, extents)
            found.update((k, step) for k, step in moved.items() if step)
        else:
            found.update(loops_of(operands_of(expr), known, extents))
    return found
