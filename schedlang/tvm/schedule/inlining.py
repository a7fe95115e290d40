"""Inlining, refused where TVM 0.27 would compute an index of the result wrongly."""

from __future__ import annotations

from typing import Any

from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.tvm.analysis.wrong_indices import Inline, wrong_when_inlined
from schedlang.tvm.schedule.ffi import TVMSchedule


def compute_inline(sch: TVMSchedule, block: Any) -> None:
    """Inline a block into its consumers; ValueError where an index would come out wrong."""
    _inline(sch, block, _ffi.ScheduleComputeInline)


def reverse_compute_inline(sch: TVMSchedule, block: Any) -> None:
    """Inline a block into its producer; ValueError where an index would come out wrong."""
    _inline(sch, block, _ffi.ScheduleReverseComputeInline)


def _inline(sch: TVMSchedule, block: Any, inline: Inline) -> None:
    access = wrong_when_inlined(sch, block, inline)
    if access is not None:
        raise ValueError(
            f"the result would access {access}, an index that TVM 0.27 computes wrongly: it loses "
            "a constant where one // or % is inside another. Leave this block where it is"
        )
    inline(sch, block)
