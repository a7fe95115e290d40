"""Movement and layouts of data.

What a function only moves (reshape, transpose, take, concatenate), which operands may change their
layout, and the layout that suits the loops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm.s_tir.schedule import _ffi_api
from tvm.tirx import BufferStore, IndexMap as TVMIndexMap

from schedlang.expressions import IndexMap
from schedlang.tvm.analysis.loop_nests import Statement, statement_of
from schedlang.tvm.packing import known_ahead, weight_positions
from schedlang.tvm.program import MAIN, block_realizes
from schedlang.tvm.schedule import (
    TVMSchedule,
    get_loops,
    get_module,
    get_realize,
    get_statement,
)
from schedlang.tvm.values import choice_of, found_in, has_loads, index_map_from_tvm, loads_of


def only_moves_data(func: tirx.PrimFunc) -> bool:
    """Tell whether every element that ``func`` writes is one that it reads, or a constant.

    Where it comes from may depend on the place and, as for ``take``, on integers that are read; a
    choice that depends on the values of other tensors, and a cast, count as computing.
    """
    blocks = [node.block for node in block_realizes(func)]
    if any(block.init is not None for block in blocks):
        return False
    stores = [store for block in blocks for store in found_in(block.body, tirx.BufferStore)]
    return bool(stores) and all(is_copied(store.value) for store in stores)


def is_copied(value: Any) -> bool:
    """Tell whether a value is an element that is read or a constant, chosen by its place only."""
    if isinstance(value, TensorLoad | tirx.IntImm | tirx.FloatImm):
        return True
    choice = choice_of(value)
    if choice is None:
        return False
    condition, *branches = choice
    return not has_loads(condition) and all(map(is_copied, branches))


@dataclass(frozen=True, slots=True)
class BlockMoves:
    """How a block moves elements; loops are positions among those around it.

    Attributes
    ----------
    stored: the loop along which it stores contiguous elements; None without one.
    loaded: another loop along which it loads contiguous elements, while it jumps along ``stored``;
        None without one. With both, the block transposes.
    guarded: the loops that say where an element comes from.
    sources: number of buffers that it reads elements of its type from.
    element_bytes: size of the elements.
    bytes: bytes that it writes and, about as many, reads.
    """

    stored: int | None
    loaded: int | None
    guarded: frozenset[int]
    sources: int
    element_bytes: int
    bytes: int


def block_moves(sch: TVMSchedule, block: Any) -> BlockMoves:
    """Return how a block with one store moves elements; it stores nowhere with several."""
    statement = statement_of(sch, block)
    if statement is None:
        return BlockMoves(None, None, frozenset(), 0, 1, 0)
    store = statement.accesses[-1]
    stored = _contiguous(statement, store.strides)
    iterations = math.prod(loop.extent for loop in statement.loops)
    loaded = None
    if stored is not None:
        for access in statement.accesses[:-1]:
            if abs(access.strides[stored]) > 1:
                loaded = _contiguous(statement, access.strides)
    return BlockMoves(
        stored,
        loaded,
        frozenset().union(*statement.guards),
        len({access.buffer for access in statement.accesses[:-1]}),
        store.bytes,
        2 * store.bytes * iterations,
    )


def _contiguous(statement: Statement, strides: tuple[float, ...]) -> int | None:
    """Return the loop of which one step moves an access by one element; None without one."""
    for position, (loop, stride) in enumerate(zip(statement.loops, strides, strict=True)):
        if abs(stride) == 1 and loop.extent > 1:
            return position
    return None


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
