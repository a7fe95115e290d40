"""TVM primitives that crash the process (TVM 0.27) on some arguments, with checks before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.tvm.schedule.ffi import TVMSchedule, get_sref, get_statement
from schedlang.tvm.values import holds


def merge(sch: TVMSchedule, loops: Sequence[Any]) -> Any:
    """Call ScheduleMerge; ValueError if two of the handles refer to the same loop."""
    srefs = [get_sref(sch, loop) for loop in loops]
    for position, sref in enumerate(srefs):
        if holds(srefs[:position], sref):
            raise ValueError(f"loops[{position}] is the same loop as an earlier one")
    return _ffi.ScheduleMerge(sch, loops)


def loop_partition(
    sch: TVMSchedule, loop: Any, factors: Sequence[Any], preserve_unit_iters: bool
) -> Any:
    """Call ScheduleLoopPartition; ValueError unless the loop surrounds a single block."""
    if len(factors) < 1 or (len(factors) == 1 and factors[0] is None):
        raise ValueError("factors must give at least the length of the first part")
    body = get_statement(sch, loop).body
    while isinstance(body, tirx.For):
        body = body.body
    if not isinstance(body, SBlockRealize):
        raise ValueError("the loop surrounds several statements; it must surround a single block")
    return _ffi.ScheduleLoopPartition(sch, loop, factors, preserve_unit_iters)


def reorder_block_iter_var(sch: TVMSchedule, block: Any, new_order: Sequence[int]) -> None:
    """Call ScheduleReorderBlockIterVar; ValueError for a block without variables (the root)."""
    if not get_statement(sch, block).iter_vars:
        raise ValueError("the block has no variables to reorder")
    _ffi.ScheduleReorderBlockIterVar(sch, block, new_order)


def fuse_reduction_epilogue(sch: TVMSchedule, reduction: Any, epilogue: Any) -> None:
    """Call ScheduleFuseReductionEpilogue; ValueError for an epilogue that does more than add.

    TVM also accepts a maximum or a clipping and applies it at every step of the reduction, which
    changes the result.
    """
    body = get_statement(sch, epilogue).body
    value = body.value if isinstance(body, tirx.BufferStore) else None
    if isinstance(value, tirx.Max | tirx.Min):
        raise ValueError(
            "TVM would apply this epilogue's minimum or maximum at every step of the reduction, "
            "which changes the result; only an epilogue that adds can be fused"
        )
    _ffi.ScheduleFuseReductionEpilogue(sch, reduction, epilogue)
