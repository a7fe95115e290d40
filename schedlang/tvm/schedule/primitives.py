"""Primitives whose arguments differ from those of TVM's function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm import tirx
from tvm.s_tir.schedule import _ffi_api as _ffi

from schedlang.distributions.categorical import INLINE, ROOT
from schedlang.expressions import IndexMap
from schedlang.tvm.program import block_names
from schedlang.tvm.schedule import ffi as _schedule
from schedlang.tvm.schedule.ffi import (
    TVMSchedule,
    buffer_of,
    get_loops,
    get_module,
    get_sref,
    get_statement,
    index_dtype,
)
from schedlang.tvm.schedule.forms import require_apart, require_own_loops
from schedlang.tvm.schedule.intrinsics import require_intrinsic
from schedlang.tvm.schedule.iterator_maps import (
    within,
    within_all,
    within_function,
    within_function_signed,
)
from schedlang.tvm.schedule.preconditions import (
    require_all_read,
    require_alone,
    require_copy_inside,
    require_inside,
    require_new_values,
    require_no_lanes,
    require_only_read,
    require_only_writer,
    require_scope_without_lanes,
    require_unshared,
    require_whole_inputs,
    require_whole_results,
)
from schedlang.tvm.values import (
    constant_map_to_tvm,
    found_in,
    holds,
    index_map_over,
    index_map_to_tvm,
)

_ROLES = {"read": 0, "write": 1}
_MAX_NAMES = 20
_THREAD_AXES = {f"{kind}.{axis}" for kind in ("blockIdx", "threadIdx", "vthread") for axis in "xyz"}
_THREAD_AXES |= {"vthread", "cthread"}


def get_block(sch: TVMSchedule, name: str, func_name: str | None) -> Any:
    try:
        return _schedule.get_block(sch, name, func_name)
    except Exception:
        mod = get_module(sch)
        function = func_name or "main"
        known = block_names(mod, function) if function in mod else [name]
        if name in known:  # ambiguous name or unknown function: TVM's message is more precise
            raise
        listed = ", ".join(known[:_MAX_NAMES]) + (", ..." if len(known) > _MAX_NAMES else "")
        raise ValueError(f"there is no block {name!r}; the program has {listed}") from None


def bind(sch: TVMSchedule, loop: Any, thread_axis: str) -> None:
    if thread_axis not in _THREAD_AXES:  # TVM accepts any letter; code generation then fails
        raise ValueError(
            f"thread_axis must be blockIdx, threadIdx or vthread with .x, .y or .z, "
            f"not {thread_axis!r}"
        )
    _ffi.ScheduleBind(sch, loop, thread_axis)


def tensorize(sch: TVMSchedule, target: Any, tensor_intrin: str, preserve_unit_iters: bool) -> None:
    require_intrinsic(tensor_intrin)
    require_own_loops(sch, target)
    require_apart(sch, target)
    _tensorize(sch, target, tensor_intrin, preserve_unit_iters)


def blockize(sch: TVMSchedule, target: Any, preserve_unit_iters: bool) -> Any:
    for one in target if isinstance(target, Sequence) else [target]:
        require_own_loops(sch, one)
        require_apart(sch, one)
    return _blockize(sch, target, preserve_unit_iters)


def cache_read(
    sch: TVMSchedule, block: Any, index: int, scope: str, consumer_blocks: list[Any]
) -> Any:
    require_only_read(sch, block, index)
    require_scope_without_lanes(sch, block)

    def copy(schedule: TVMSchedule) -> Any:
        return _ffi.ScheduleCacheRead(schedule, block, index, scope, consumer_blocks)

    require_copy_inside(sch, block, "read", index, copy)
    return copy(sch)


def cache_write(
    sch: TVMSchedule, block: Any, index: int, scope: str, consumer_blocks: list[Any]
) -> Any:
    require_new_values(sch, block, index)
    require_scope_without_lanes(sch, block)

    def copy(schedule: TVMSchedule) -> Any:
        return _ffi.ScheduleCacheWrite(schedule, block, index, scope, consumer_blocks)

    require_copy_inside(sch, block, "write", index, copy)
    return copy(sch)


def cache_inplace(sch: TVMSchedule, block: Any, index: int, scope: str) -> Any:
    _require_fixed_region(get_statement(sch, block), index)
    require_scope_without_lanes(sch, block)
    return _ffi.ScheduleCacheInplace(sch, block, index, scope)


def _require_fixed_region(stmt: Any, index: int) -> None:
    # TVM 0.27 would place the copy outside the scope of the block's variables.
    if not 0 <= index < len(stmt.reads):
        return
    buffer = stmt.reads[index].source
    if not any(buffer.same_as(written.source) for written in stmt.writes):
        return
    for dom in stmt.reads[index].region:
        used = found_in(dom.min, tirx.Var)
        for iter_var in stmt.iter_vars:
            if holds(used, iter_var.var):
                raise ValueError(
                    f"block {stmt.name_hint} reads a region of {buffer.name} "
                    f"that depends on {iter_var.var.name}; only a fixed region can be cached"
                )


def read_at(sch: TVMSchedule, loop: Any, block: Any, index: int, scope: str) -> Any:
    _require_below(sch, loop, block)
    require_no_lanes(sch, loop)
    require_only_read(sch, block, index)
    require_inside(sch, block, "read", index)
    return _ffi.ScheduleReadAt(sch, loop, block, index, scope)


def write_at(sch: TVMSchedule, loop: Any, block: Any, index: int, scope: str) -> Any:
    _require_below(sch, loop, block)
    require_no_lanes(sch, loop)
    require_new_values(sch, block, index)
    require_inside(sch, block, "write", index)
    return _ffi.ScheduleWriteAt(sch, loop, block, index, scope)


def _is_below(sch: TVMSchedule, loop: Any, block: Any) -> bool:
    return holds((get_sref(sch, other) for other in get_loops(sch, block)), get_sref(sch, loop))


def _require_below(sch: TVMSchedule, loop: Any, block: Any) -> None:
    if not _is_below(sch, loop, block):
        name = get_statement(sch, block).name_hint
        variable = get_statement(sch, loop).loop_var.name
        raise ValueError(f"block {name} is not below loop {variable}")


class Location:
    """A compute-at location that is not a loop: inlined, or the block's present place."""

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
            require_no_lanes(sch, loop)
            move(sch, block, loop, preserve_unit_loops, index)

    return apply


split = within(_ffi.ScheduleSplit)
fuse = within(_ffi.ScheduleFuse)
_blockize = within(_ffi.ScheduleBlockize)
compute_inline = within(_ffi.ScheduleComputeInline)
reverse_compute_inline = within(_ffi.ScheduleReverseComputeInline)
compute_at = _at(within(_ffi.ScheduleComputeAt), compute_inline)


def _reverse_compute_at(sch: TVMSchedule, block: Any, loop: Any, units: bool, index: int) -> None:
    producers = _ffi.ScheduleGetProducers(sch, block)
    if not producers and not _is_below(sch, loop, block):
        name = get_statement(sch, block).name_hint
        raise ValueError(
            f"block {name} reads no result of another block, and TVM would move it behind its own "
            "consumers; use compute_at"
        )
    require_whole_results(sch, block, loop)
    require_whole_inputs(sch, block, loop, producers)
    require_all_read(sch, block, producers)
    _move_to_producer(sch, block, loop, units, index)


_move_to_producer = within_all(_ffi.ScheduleReverseComputeAt)
reverse_compute_at = _at(_reverse_compute_at, reverse_compute_inline)
_tensorize = within(_ffi.ScheduleTensorize)
_transform_layout = within_function_signed(_ffi.ScheduleTransformLayout)
_transform_block_layout = within_function(_ffi.ScheduleTransformBlockLayout)


def _lowered_over_block(sch: TVMSchedule, block: Any, index_map: IndexMap) -> tirx.IndexMap:
    stmt = get_statement(sch, block)
    if len(index_map.inputs) != len(stmt.iter_vars):
        names = ", ".join(str(iter_var.var.name) for iter_var in stmt.iter_vars)
        raise ValueError(
            f"index_map takes {len(index_map.inputs)} indices, but block {stmt.name_hint} has "
            f"{len(stmt.iter_vars)} variables: {names}"
        )
    return _lowered(sch, block, index_map)


def _lowered(sch: TVMSchedule, block: Any, index_map: IndexMap) -> tirx.IndexMap:
    return index_map_to_tvm(index_map, lambda v: v.value, index_dtype(sch, block))


def reindex(sch: TVMSchedule, block: Any, buffer: list[Any]) -> Any:
    role, index = buffer
    require_unshared(sch, block, role, index)
    require_inside(sch, block, role, index)
    require_scope_without_lanes(sch, block)
    if role == "write":
        require_only_writer(sch, block, buffer_of(sch, block, role, index))
        require_new_values(sch, block, index)
    else:
        require_only_read(sch, block, index)
    return _ffi.ScheduleReIndex(sch, block, index, _ROLES[role])


def reindex_cache_read(
    sch: TVMSchedule, block: Any, index: int, scope: str, index_map: IndexMap
) -> Any:
    require_only_read(sch, block, index)
    require_inside(sch, block, "read", index)
    require_scope_without_lanes(sch, block)
    return _ffi.ScheduleReindexCacheRead(
        sch, block, index, scope, _lowered_over_block(sch, block, index_map)
    )


def reindex_cache_write(
    sch: TVMSchedule, block: Any, index: int, scope: str, index_map: IndexMap
) -> Any:
    require_new_values(sch, block, index)
    require_inside(sch, block, "write", index)
    require_scope_without_lanes(sch, block)
    return _ffi.ScheduleReindexCacheWrite(
        sch, block, index, scope, _lowered_over_block(sch, block, index_map)
    )


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
    target = buffer_of(sch, block, role, index)
    if len(index_map.inputs) != len(target.ty.shape):
        raise ValueError(
            f"index_map takes {len(index_map.inputs)} indices, but buffer {target.name} has "
            f"{len(target.ty.shape)} dimensions"
        )
    if pad_value is not None:
        require_alone(sch, target, "transform_layout with a pad_value")
    if isinstance(pad_value, IndexMap):
        padding = _lowered(sch, block, pad_value)
    elif pad_value is not None:
        dtype = str(target.ty.dtype)
        ndim = len(index_map.outputs)
        padding = constant_map_to_tvm(pad_value, ndim, dtype, index_dtype(sch, block))
    lowered = _lowered(sch, block, index_map)
    _transform_layout(sch, block, index, _ROLES[role], lowered, padding, assume_injective_transform)


def transform_block_layout(sch: TVMSchedule, block: Any, index_map: IndexMap) -> None:
    _transform_block_layout(sch, block, _lowered_over_block(sch, block, index_map))


def annotate_buffer_access(
    sch: TVMSchedule, block: Any, buffer_index: int, buffer_type: str, ranges: IndexMap
) -> None:
    if buffer_type not in _ROLES:
        raise ValueError(f'buffer_type must be "read" or "write", not {buffer_type!r}')
    variables = [iter_var.var for iter_var in get_statement(sch, block).iter_vars]
    if len(ranges.inputs) != len(variables):
        raise ValueError(
            f"the function takes {len(ranges.inputs)} variables, but the block has {len(variables)}"
        )
    lowered = index_map_over(ranges, lambda v: v.value, variables)
    _ffi.ScheduleAnnotateBufferAccess(sch, block, buffer_index, _ROLES[buffer_type], lowered)
