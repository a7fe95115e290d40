"""Arithmetic operations of a program, where its loops say how many there are."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir.analysis import estimate_tir_flops
from tvm_ffi import structural_map

from schedlang.tvm.program import MAIN, as_main
from schedlang.tvm.values import called, found_in

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
