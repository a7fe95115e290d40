"""Layouts of operands: which buffers may change theirs, and what the loops would like to read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.s_tir.schedule import _ffi_api
from tvm.tirx.function import IndexMap as TVMIndexMap
from tvm_ffi import structural_walk

from schedlang.expressions import IndexMap
from schedlang.tvm.expressions import index_map_from_tvm
from schedlang.tvm.program import MAIN
from schedlang.tvm.schedule import TVMSchedule, get_loops, get_module, get_statement

_suggest = _ffi_api.SuggestIndexMap
_block_realize = _ffi_api.GetSBlockRealize


def layout_free_buffers(sch: TVMSchedule) -> tuple[str, ...]:
    """Names of the buffers that the program marks: ``layout_free_buffers`` of the function, numbers
    of its parameters, and ``layout_free_placeholders`` of its blocks.
    """
    func = get_module(sch)[MAIN]
    attrs = func.attrs
    marked = attrs["layout_free_buffers"] if "layout_free_buffers" in attrs else []
    names = [str(func.params[int(position)].name) for position in marked]

    def note(block: Any) -> None:
        if "layout_free_placeholders" in block.annotations:
            names.extend(str(b.name) for b in block.annotations["layout_free_placeholders"])

    structural_walk(func.body, (SBlock, note))
    return tuple(dict.fromkeys(names))


def parameter_names(sch: TVMSchedule) -> tuple[str, ...]:
    """Names of the function's parameters."""
    return tuple(str(param.name) for param in get_module(sch)[MAIN].params)


def readers(sch: TVMSchedule, buffer: str) -> tuple[str, ...]:
    """Names of the blocks that read a buffer."""
    names: list[str] = []

    def note(block: Any) -> None:
        if any(str(region.source.name) == buffer for region in block.reads):
            names.append(str(block.name_hint))

    structural_walk(get_module(sch)[MAIN].body, (SBlock, note))
    return tuple(names)


def suggested_layout(sch: TVMSchedule, block: Any, read_index: int) -> IndexMap | None:
    """The layout in which a block reads one of its buffers from front to back, in the order of the
    loops around it (TVM's SuggestIndexMap).

    None where the buffer has it already, where the block reads it at several places, and where its
    indices are no tiles of the loops (a sliding window).
    """
    realize = _block_realize(sch, block)
    buffer = realize.block.reads[read_index].source
    loads: list[Any] = []

    def note(load: Any) -> None:
        if load.source.same_as(buffer):
            loads.append(load)

    structural_walk(realize.block.body, (TensorLoad, note))
    if len(loads) != 1:
        return None
    variables = [axis.var for axis in realize.block.iter_vars]
    indices = TVMIndexMap(variables, loads[0].indices, None).map_indices(realize.iter_values)
    loops = [get_statement(sch, loop) for loop in get_loops(sch, block)]
    found = _suggest(buffer, indices, loops, realize.predicate)
    if found is None:
        return None
    try:
        layout = index_map_from_tvm(found)
    except TypeError:
        return None
    shape = [int(extent) for extent in buffer.ty.shape]
    new_shape = [int(extent) for extent in found.map_shape(buffer.ty.shape)]
    # An index that leaves the buffer (at a border, under a condition) has other digits.
    if math.prod(new_shape) != math.prod(shape):
        return None
    return None if _keeps_order(layout, shape, new_shape) else layout


def _keeps_order(layout: IndexMap, shape: list[int], new_shape: list[int]) -> bool:
    """Whether the layout leaves every element where it was in memory.

    It only permutes the digits of the flat index, so it is enough to look at where each place value
    goes, and place values are divisors of the size.
    """
    size = math.prod(shape)
    below = [d for d in range(1, math.isqrt(size) + 1) if size % d == 0]
    places = {*below, *(size // d for d in below)} - {size}
    return all(_flat(layout(*_unflat(p, shape)), new_shape) == p for p in places)


def _flat(indices: Sequence[int], shape: Sequence[int]) -> int:
    flat = 0
    for index, extent in zip(indices, shape, strict=True):
        flat = flat * extent + index
    return flat


def _unflat(flat: int, shape: Sequence[int]) -> list[int]:
    indices = []
    for extent in reversed(shape):
        flat, index = divmod(flat, extent)
        indices.append(index)
    return indices[::-1]
