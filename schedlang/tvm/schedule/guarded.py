"""TVM primitives that end the process (TVM 0.27) on some arguments: those are refused first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir import SBlockRealize
from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.tvm.schedule.ffi import TVMSchedule, get_statement


def merge(sch: TVMSchedule, loops: Sequence[Any]) -> Any:
    """ScheduleMerge; ValueError when a loop comes twice, as another handle of it too."""
    srefs = [_ffi.ScheduleGetSRef(sch, loop) for loop in loops]
    for position, sref in enumerate(srefs):
        if any(sref.same_as(other) for other in srefs[:position]):
            raise ValueError(f"loop number {position} is the same loop as one before it")
    return _ffi.ScheduleMerge(sch, loops)


def loop_partition(
    sch: TVMSchedule, loop: Any, factors: Sequence[Any], preserve_unit_iters: bool
) -> Any:
    """ScheduleLoopPartition; ValueError unless it cuts a loop around one single block."""
    if len(factors) < 1 or (len(factors) == 1 and factors[0] is None):
        raise ValueError("it takes at least one factor: the length of the first part")
    body = get_statement(sch, loop).body
    while isinstance(body, tirx.For):
        body = body.body
    if not isinstance(body, SBlockRealize):
        raise ValueError("the loop has several statements below it; it must be around one block")
    return _ffi.ScheduleLoopPartition(sch, loop, factors, preserve_unit_iters)


def reorder_block_iter_var(sch: TVMSchedule, block: Any, new_order: Sequence[int]) -> None:
    """ScheduleReorderBlockIterVar; ValueError for a block without variables, such as the root."""
    if not get_statement(sch, block).iter_vars:
        raise ValueError("the block has no variables to reorder")
    _ffi.ScheduleReorderBlockIterVar(sch, block, new_order)


def fuse_reduction_epilogue(sch: TVMSchedule, reduction: Any, epilogue: Any) -> None:
    """ScheduleFuseReductionEpilogue; ValueError for an epilogue that does more than add.

    TVM also takes a maximum or a clipping, and applies it at every step of the reduction, which
    gives other numbers.
    """
    body = get_statement(sch, epilogue).body
    value = body.value if isinstance(body, tirx.BufferStore) else None
    if isinstance(value, tirx.Max | tirx.Min):
        raise ValueError(
            "TVM would apply this epilogue's minimum or maximum at every step of the reduction, "
            "which gives other numbers; only an epilogue that adds can be fused"
        )
    _ffi.ScheduleFuseReductionEpilogue(sch, reduction, epilogue)
