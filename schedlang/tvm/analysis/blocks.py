"""Facts of blocks, loops and buffers of a scheduled program."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call
from tvm.s_tir.schedule import _ffi_api

from schedlang.distributions.categorical import INLINE, ROOT
from schedlang.tvm.schedule import (
    TVMSchedule,
    buffer_of,
    constant_extent,
    get_consumers,
    get_loops,
    get_realize,
    get_sref,
    get_statement,
)
from schedlang.tvm.statements import bindings_of, is_reduced, is_spatial, regions_of
from schedlang.tvm.values import extent_of, found_in, holds, mentions, variables_in

is_trivial_binding = _ffi_api.IsTrivialBinding
is_output_block = _ffi_api.IsOutputBlock
_loop_iter_type = _ffi_api.GetLoopIterType


class LoopKind(enum.StrEnum):
    """Kind of a loop: spatial, reduction, or opaque (both, or neither)."""

    SPATIAL = "S"
    REDUCTION = "R"
    OPAQUE = "O"


def loop_kind(sch: TVMSchedule, loop: Any) -> LoopKind:
    """Return the kind of a loop, by how the blocks below it use its variable."""
    return LoopKind(_loop_iter_type(sch, loop))


@dataclass(frozen=True, slots=True)
class BlockFacts:
    """Facts of a block that transformation modules use."""

    name: str
    spatial_extents: tuple[int, ...]
    reduction_extents: tuple[int, ...]
    reads: int
    writes: int
    has_init: bool
    has_if_then_else: bool
    operations: frozenset[str]
    annotations: frozenset[str]


def block_facts(sch: TVMSchedule, block: Any) -> BlockFacts:
    """Return the facts of a block; extents that are not constant are -1."""
    stmt = get_statement(sch, block)
    extents: dict[bool, list[int]] = {False: [], True: []}
    for axis in stmt.iter_vars:
        extents[is_reduced(axis)].append(extent_of(axis.dom.extent))
    found = found_in(stmt.body, (Call, tirx.IfThenElse, tirx.Select))
    calls = [node for node in found if isinstance(node, Call)]
    return BlockFacts(
        name=str(stmt.name_hint),
        spatial_extents=tuple(extents[False]),
        reduction_extents=tuple(extents[True]),
        reads=len(stmt.reads),
        writes=len(stmt.writes),
        has_init=stmt.init is not None,
        has_if_then_else=len(calls) < len(found),
        operations=frozenset(str(getattr(call.op, "name", call.op)) for call in calls),
        annotations=frozenset(str(key) for key in stmt.annotations),
    )


def buffer_index(sch: TVMSchedule, block: Any, name: str, role: str) -> int:
    """Return the position of buffer ``name`` in a block's reads or writes; ValueError if absent."""
    stmt = get_statement(sch, block)
    names = [str(region.source.name) for region in regions_of(stmt, role)]
    if name not in names:
        raise ValueError(
            f"block {stmt.name_hint} {role}s no buffer {name!r}; it {role}s {', '.join(names)}"
        )
    return names.index(name)


def compute_locations(sch: TVMSchedule, block: Any) -> tuple[int, ...]:
    """Return the locations at which a block may be computed.

    -2 is inlined, -1 where it is, k >= 0 the first consumer's k-th loop. The rules are those of
    TVM's SampleComputeLocation (no unit loops, no spatial loop below a reduction loop, no trailing
    reduction loop), but without its dry run of every compute-at, which takes most of the time of a
    replay. A location that TVM refuses later makes the trace invalid. Vectorised loops, and loops
    inside them, are no locations: TVM 0.27 miscompiles several blocks below a vectorised loop.
    """
    consumers = list(get_consumers(sch, block))
    locations = [INLINE, ROOT] if _may_inline(sch, block, consumers) else [ROOT]
    if not consumers:
        return tuple(locations)
    loops = list(get_loops(sch, consumers[0]))
    depth = len(loops)
    if len(consumers) > 1:
        depth = shared_depth(sch, loops, consumers[1:])
    depth = min(depth, _vectorized_depth(sch, loops))
    kinds = [loop_kind(sch, loop) for loop in loops[:depth]]
    last_spatial = max((k for k, kind in enumerate(kinds) if kind == LoopKind.SPATIAL), default=-1)
    below_reduction = False
    for position in range(depth):
        if constant_extent(sch, loops[position]) == 1:
            continue
        if kinds[position] == LoopKind.SPATIAL:
            if below_reduction:
                break
        else:
            below_reduction = True
            if position > last_spatial:
                break
        locations.append(position)
    return tuple(locations)


def shared_depth(sch: TVMSchedule, loops: list[Any], others: list[Any]) -> int:
    """Count the loops, from the outermost, that also surround all of the other blocks."""
    srefs = [get_sref(sch, loop) for loop in loops]
    for other in others:
        theirs = [get_sref(sch, loop) for loop in get_loops(sch, other)]
        shared = 0
        while shared < min(len(srefs), len(theirs)) and srefs[shared].same_as(theirs[shared]):
            shared += 1
        srefs = srefs[:shared]
    return len(srefs)


def _vectorized_depth(sch: TVMSchedule, loops: list[Any]) -> int:
    """Count the loops, from the outermost, that are around the first vectorised one."""
    kinds = (int(get_statement(sch, loop).kind) for loop in loops)
    vectorized = (k for k, kind in enumerate(kinds) if kind == tirx.ForKind.VECTORIZED)
    return next(vectorized, len(loops))


def _may_inline(sch: TVMSchedule, block: Any, consumers: list[Any]) -> bool:
    stmt = get_statement(sch, block)
    if (
        stmt.init is not None
        or len(stmt.writes) != 1
        or not isinstance(stmt.body, tirx.BufferStore)
    ):
        return False
    if not all(map(is_spatial, stmt.iter_vars)):
        return False
    written = stmt.writes[0].source
    for consumer in consumers:  # a reduction whose initial value this block sets
        if any(region.source.same_as(written) for region in get_statement(sch, consumer).writes):
            return False
    used: list[Any] = []
    for index in stmt.body.indices:
        if isinstance(index, tirx.Var):
            if holds(used, index):
                return False
            used.append(index)
        elif not isinstance(index, tirx.IntImm):
            return False
    if len(used) < sum(extent_of(axis.dom.extent) != 1 for axis in stmt.iter_vars):
        return False
    return not is_output_block(sch, block)


def has_data_reuse(sch: TVMSchedule, block: Any) -> bool:
    """Return whether some read region does not depend on a spatial variable of extent > 1."""
    return reuses_data(get_statement(sch, block))


def reuses_data(stmt: Any) -> bool:
    """Return whether a block's statement ``has_data_reuse``."""
    spatial = [
        axis.var
        for axis in stmt.iter_vars
        if is_spatial(axis) and extent_of(axis.dom.extent, 2) > 1
    ]
    for region in stmt.reads:
        used = [var for dom in region.region for var in variables_in(dom.min)]
        if not all(holds(used, variable) for variable in spatial):
            return True
    return False


def loop_is_plain(sch: TVMSchedule, loop: Any) -> bool:
    """Return whether a loop is serial and has no annotations."""
    stmt = get_statement(sch, loop)
    return int(stmt.kind) == tirx.ForKind.SERIAL and not stmt.annotations


def is_single_child(sch: TVMSchedule, loop: Any) -> bool:
    """Return whether the body of a loop is one statement."""
    return not isinstance(get_statement(sch, loop).body, tirx.SeqStmt)


def stores_contiguously(sch: TVMSchedule, block: Any, loop: Any) -> bool:
    """Return whether of every written buffer only the last index depends on a loop."""
    moved = moved_variables(sch, block, loop)
    for region in get_statement(sch, block).writes:
        *outer, last = (dom.min for dom in region.region)
        if any(mentions(index, moved) for index in outer) or not mentions(last, moved):
            return False
    return True


def moved_variables(sch: TVMSchedule, block: Any, loop: Any) -> list[Any]:
    """Return the block variables whose values depend on a loop around the block."""
    variable = get_statement(sch, loop).loop_var
    return [axis.var for axis in moved_axes(get_realize(sch, block), variable)]


def bound_loops(sch: TVMSchedule, block: Any, loops: list[Any]) -> list[int]:
    """Return the positions of the loops that the values of the block's variables depend on."""
    bindings = get_realize(sch, block).iter_values[:]
    used = [variable for value in bindings for variable in variables_in(value)]
    return [k for k, loop in enumerate(loops) if holds(used, get_statement(sch, loop).loop_var)]


def moved_axes(realize: Any, variable: Any) -> list[Any]:
    """Return the axes of a block whose values depend on a loop's variable."""
    return [axis for axis, value in bindings_of(realize) if mentions(value, [variable])]


def buffer_shape(sch: TVMSchedule, block: Any, role: str, index: int) -> tuple[int, ...]:
    """Return the extents of a buffer that a block reads or writes; -1 if not constant."""
    shape = buffer_of(sch, block, role, index).ty.shape
    return tuple(map(extent_of, shape))
