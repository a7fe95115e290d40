"""Primitives whose arguments are not TVM's own one to one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm.s_tir.schedule import _ffi_api as _ffi
from tvm.tirx.function import IndexMap as TVMIndexMap

from schedlang.expressions import IndexMap
from schedlang.tvm.analysis import INLINE, ROOT, buffer_of, index_dtype
from schedlang.tvm.expressions import constant_map_to_tvm, index_map_over, index_map_to_tvm
from schedlang.tvm.schedule import TVMSchedule, get_statement

_ROLES = {"read": 0, "write": 1}


class Location:
    """A place for compute-at that is no loop: inlined, or where the block is."""

    def __init__(self, position: int) -> None:
        self.position = position


INLINED = Location(INLINE)
AT_ROOT = Location(ROOT)


def _at(move: Callable[..., None], inline: Callable[..., None]) -> Callable[..., None]:
    def apply(
        sch: TVMSchedule, block: Any, loop: Any, preserve_unit_loops: bool, index: int
    ) -> None:
        if loop is INLINED:
            inline(sch, block)
        elif loop is not AT_ROOT:
            move(sch, block, loop, preserve_unit_loops, index)

    return apply


compute_at = _at(_ffi.ScheduleComputeAt, _ffi.ScheduleComputeInline)
reverse_compute_at = _at(_ffi.ScheduleReverseComputeAt, _ffi.ScheduleReverseComputeInline)


def _lowered(sch: TVMSchedule, block: Any, index_map: IndexMap) -> TVMIndexMap:
    return index_map_to_tvm(index_map, lambda v: v.value, index_dtype(sch, block))


def reindex(sch: TVMSchedule, block: Any, buffer: list[Any]) -> Any:
    role, index = buffer
    return _ffi.ScheduleReIndex(sch, block, index, _ROLES[role])


def reindex_cache_read(
    sch: TVMSchedule, block: Any, index: int, scope: str, index_map: IndexMap
) -> Any:
    return _ffi.ScheduleReindexCacheRead(sch, block, index, scope, _lowered(sch, block, index_map))


def reindex_cache_write(
    sch: TVMSchedule, block: Any, index: int, scope: str, index_map: IndexMap
) -> Any:
    return _ffi.ScheduleReindexCacheWrite(sch, block, index, scope, _lowered(sch, block, index_map))


def transform_layout(
    sch: TVMSchedule,
    block: Any,
    buffer: list[Any],
    index_map: IndexMap,
    pad_value: Any,
    assume_injective_transform: bool,
) -> None:
    role, index = buffer
    padding = pad_value
    if isinstance(pad_value, IndexMap):
        padding = _lowered(sch, block, pad_value)
    elif pad_value is not None:
        dtype = str(buffer_of(sch, block, role, index).ty.dtype)
        ndim = len(index_map.outputs)
        padding = constant_map_to_tvm(pad_value, ndim, dtype, index_dtype(sch, block))
    lowered = _lowered(sch, block, index_map)
    _ffi.ScheduleTransformLayout(
        sch, block, index, _ROLES[role], lowered, padding, assume_injective_transform
    )


def transform_block_layout(sch: TVMSchedule, block: Any, index_map: IndexMap) -> None:
    _ffi.ScheduleTransformBlockLayout(sch, block, _lowered(sch, block, index_map))


def annotate_buffer_access(
    sch: TVMSchedule, block: Any, buffer_index: int, buffer_type: str, ranges: IndexMap
) -> None:
    if buffer_type not in _ROLES:
        raise ValueError(f'buffer_type is "read" or "write", not {buffer_type!r}')
    variables = [iter_var.var for iter_var in get_statement(sch, block).iter_vars]
    if len(ranges.inputs) != len(variables):
        raise ValueError(
            f"the function takes {len(ranges.inputs)} variables, the block has {len(variables)}"
        )
    lowered = index_map_over(ranges, lambda v: v.value, variables)
    _ffi.ScheduleAnnotateBufferAccess(sch, block, buffer_index, _ROLES[buffer_type], lowered)
