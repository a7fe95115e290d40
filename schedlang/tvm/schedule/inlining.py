"""Inlining and moving, refused where TVM 0.27 would compute an index of the result wrongly."""

from __future__ import annotations

from typing import Any

from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.tvm.analysis.wrong_indices import Inline, wrong_when_inlined, wrong_when_moved
from schedlang.tvm.schedule.ffi import TVMSchedule


def compute_inline(sch: TVMSchedule, block: Any) -> None:
    """Inline a block into its consumers; ValueError where an index would come out wrong."""
    _inline(sch, block, _ffi.ScheduleComputeInline)


def reverse_compute_inline(sch: TVMSchedule, block: Any) -> None:
    """Inline a block into its producer; ValueError where an index would come out wrong."""
    _inline(sch, block, _ffi.ScheduleReverseComputeInline)


def compute_at(
    sch: TVMSchedule, block: Any, loop: Any, preserve_unit_loops: bool, index: int
) -> None:
    """Compute a block under a loop; ValueError where an index would come out wrong."""

    def move(schedule: TVMSchedule) -> None:
        _ffi.ScheduleComputeAt(schedule, block, loop, preserve_unit_loops, index)

    _require_right(wrong_when_moved(sch, block, move))
    move(sch)


def _inline(sch: TVMSchedule, block: Any, inline: Inline) -> None:
    _require_right(wrong_when_inlined(sch, block, inline))
    inline(sch, block)


def _require_right(access: str | None) -> None:
    if access is not None:
        raise ValueError(
            f"the result would access {access}, an index that TVM 0.27 computes wrongly: it loses "
            "a constant where one // or % is inside another. Leave this block where it is"
        )
