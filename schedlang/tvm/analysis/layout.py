"""Layouts of operands: which buffers may change theirs, and the layout that suits the loops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm.s_tir import SBlock
from tvm.s_tir.schedule import _ffi_api
from tvm.tirx import BufferStore
from tvm.tirx import IndexMap as TVMIndexMap

from schedlang.expressions import IndexMap
from schedlang.tvm.analysis.movement import is_copied
from schedlang.tvm.expressions import index_map_from_tvm
from schedlang.tvm.packing import known_ahead, weight_positions
from schedlang.tvm.program import MAIN
from schedlang.tvm.schedule import (
    TVMSchedule,
    get_loops,
    get_module,
    get_realize,
    get_statement,
)
from schedlang.tvm.values import found_in, loads_of

_suggest = _ffi_api.SuggestIndexMap


def layout_free_buffers(sch: TVMSchedule) -> tuple[str, ...]:
    """Return the names of the buffers whose layout the program allows to change.

    They are listed in the function's ``layout_free_buffers`` (positions of parameters) and in
    ``layout_free_placeholders`` of its blocks.
    """
    func = get_module(sch)[MAIN]
    names = [str(func.params[position].name) for position in weight_positions(func)]
    for block in found_in(func.body, SBlock):
        names += (str(one.name) for one in block.annotations.get("layout_free_placeholders", ()))
    return tuple(dict.fromkeys(names))


def reads_ahead(sch: TVMSchedule, block: Any) -> tuple[bool, ...]:
    """Return for each read of a block whether its buffer is known ahead of all calls."""
    known = known_ahead(get_module(sch)[MAIN])
    return tuple(region.source in known for region in get_statement(sch, block).reads)


def runs_ahead(sch: TVMSchedule, block: Any) -> bool:
    """Return whether what a block writes is known ahead of all calls."""
    known = known_ahead(get_module(sch)[MAIN])
    writes = get_statement(sch, block).writes
    return bool(writes) and all(region.source in known for region in writes)


def computes_ahead(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block that is known ahead computes, and makes no more than it reads."""
    if not runs_ahead(sch, block):
        return False
    stmt = get_statement(sch, block)
    sizes = [
        max((math.prod(map(int, region.source.ty.shape)) for region in regions), default=0)
        for regions in (stmt.reads, stmt.writes)
    ]
    return sizes[1] <= sizes[0] and not all(
        is_copied(store.value) for store in found_in(stmt.body, BufferStore)
    )


def parameter_names(sch: TVMSchedule) -> tuple[str, ...]:
    """Return the names of the function's parameters."""
    return tuple(str(param.name) for param in get_module(sch)[MAIN].params)


def readers(sch: TVMSchedule, buffer: str) -> tuple[str, ...]:
    """Return the names of the blocks that read a buffer."""
    return tuple(
        str(block.name_hint)
        for block in found_in(get_module(sch)[MAIN].body, SBlock)
        if any(str(region.source.name) == buffer for region in block.reads)
    )


def suggested_layout(sch: TVMSchedule, block: Any, read_index: int) -> IndexMap | None:
    """Return the layout in which the loops around a block read a buffer in order.

    It comes from TVM's SuggestIndexMap. None if the buffer has this layout already, if the block
    reads it at several places, or if its indices are not tiles of the loops (a sliding window).
    """
    realize = get_realize(sch, block)
    buffer = realize.block.reads[read_index].source
    loads = [load for load in loads_of(realize.block.body) if load.source.same_as(buffer)]
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
    # The sizes differ if an index leaves the buffer (at a border, under a condition).
    if math.prod(new_shape) != math.prod(shape):
        return None
    return None if _keeps_order(layout, shape, new_shape) else layout


def _keeps_order(layout: IndexMap, shape: list[int], new_shape: list[int]) -> bool:
    """Return whether the layout leaves every element where it was in memory.

    A layout permutes the digits of the flat index, so checking the place values suffices, and
    these are divisors of the size.
    """
    size = math.prod(shape)
    below = [d for d in range(1, math.isqrt(size) + 1) if size % d == 0]
    places = {*below, *(size // d for d in below)} - {size}
    moved = (layout(*map(int, np.unravel_index(place, shape))) for place in places)
    return [int(np.ravel_multi_index(one, new_shape)) for one in moved] == list(places)
