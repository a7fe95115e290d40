"""Access patterns of blocks, the cost of their bodies, and the binding of their loops."""

from __future__ import annotations

from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.s_tir.schedule import _ffi_api
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.blocks import is_single_child, shared_depth
from schedlang.tvm.program import MAIN
from schedlang.tvm.schedule import (
    TVMSchedule,
    get_consumers,
    get_loops,
    get_module,
    get_producers,
    get_realize,
    get_sref,
    get_statement,
    scope_of,
)
from schedlang.tvm.schedule.forms import may_decompose_padding
from schedlang.tvm.values import BINARY, found_in, holds, operands_of, position_of

_is_spatial_program = _ffi_api.IsSpatialPrimFunc
_PIPELINE = "software_pipeline_stage"
# Memory by how many threads share it, most first; registers are in none of these.
_SHARED_BY = ("global", "shared", "warp")
_OPERATIONS = (*BINARY, tirx.Cast, tirx.Not, tirx.Select, Call)


def can_decompose_padding(sch: TVMSchedule, block: Any, loop: Any) -> bool:
    """Return whether a padding can be filled before a loop."""
    possible = bool(_ffi_api.CanDecomposePadding(sch, block, loop))
    return possible and may_decompose_padding(sch, loop)


def read_pattern(sch: TVMSchedule, block: Any) -> tuple[bool, bool]:
    """Return whether all reads of a block are injective, and whether all are ordered.

    Both require that each index of a read is a constant, or an index of the write plus or minus a
    constant (MetaSchedule's AnalyzeReadWritePattern; Ansor's conditions of a strictly inlinable
    node). Injective: no index of the write occurs twice. Ordered: they occur in the order of the
    write. A block that writes several buffers is neither.
    """
    stmt = get_statement(sch, block)
    if len(stmt.writes) != 1:
        return False, False
    written = [dom.min for dom in stmt.writes[0].region]
    if not all(isinstance(index, tirx.Var) for index in written):
        return False, False
    injective = ordered = True
    for region in stmt.reads:
        places: list[int] = []
        for dom in region.region:
            if isinstance(dom.min, tirx.IntImm):
                continue
            place = _place_of(dom, written)
            if place is None:
                return False, False
            places.append(place)
        injective &= len(set(places)) == len(places)
        ordered &= places == sorted(places)
    return injective, ordered


def _place_of(dom: Any, written: list[Any]) -> int | None:
    """Return the position of the written index that a read index is, up to a constant."""
    if not isinstance(dom.extent, tirx.IntImm):
        return None
    index = dom.min
    if isinstance(index, (tirx.Add, tirx.Sub)) and isinstance(index.b, tirx.IntImm):
        index = index.a
    position = position_of(index, written)
    return position if position >= 0 else None


def count_operations(sch: TVMSchedule, block: Any) -> int:
    """Count arithmetic operations, comparisons, casts and calls in one iteration of a block.

    Index arithmetic does not count; of a block of several statements only the stores do.
    """
    return _operations_of(get_statement(sch, block).body)


def _operations_of(node: Any) -> int:
    if isinstance(node, tirx.BufferStore):
        return _operations_of(node.value)
    if isinstance(node, tirx.SeqStmt):
        return sum(map(_operations_of, node.seq))
    if isinstance(node, _OPERATIONS):
        return 1 + sum(map(_operations_of, operands_of(node)))
    return 0


def repeated_operations(sch: TVMSchedule, block: Any) -> int:
    """Count the operations that an element costs more once its consumers compute the block.

    One read costs nothing more: the operations only move. Each further read, in whatever
    consumer, repeats those of the block: of its values, or, where these are more, the minima and
    maxima of its indices, which cost TVM the most time.
    """
    buffers = [region.source for region in get_statement(sch, block).writes]
    bodies = [get_statement(sch, consumer).body for consumer in get_consumers(sch, block)]
    return _repeated(sch, block, sum(_reads_of(body, buffers) for body in bodies))


def repeated_producers(sch: TVMSchedule, block: Any) -> int:
    """Count the operations that an element costs more once a block computes its producers."""
    body = get_statement(sch, block).body
    return sum(
        _repeated(sch, producer, _reads_of(body, [region.source for region in stmt.writes]))
        for producer in get_producers(sch, block)
        for stmt in [get_statement(sch, producer)]
    )


def _repeated(sch: TVMSchedule, block: Any, reads: int) -> int:
    operations = max(count_operations(sch, block), _limits_of(get_statement(sch, block).body))
    return max(reads - 1, 0) * operations


def _limits_of(node: Any) -> int:
    """Count minima and maxima of the indices of a body's reads."""
    if isinstance(node, tirx.SeqStmt):
        return sum(map(_limits_of, node.seq))
    if isinstance(node, tirx.BufferStore):
        return _limits_of(node.value)
    if isinstance(node, TensorLoad):
        return sum(map(_minima_and_maxima, node.indices))
    return sum(map(_limits_of, operands_of(node)))


def _minima_and_maxima(index: Any) -> int:
    inner = index.indices if isinstance(index, TensorLoad) else operands_of(index)
    return isinstance(index, (tirx.Min, tirx.Max)) + sum(map(_minima_and_maxima, inner))


def _reads_of(node: Any, buffers: list[Any]) -> int:
    """Count the reads of buffers in a body, a shared expression as often as it stands there."""
    if isinstance(node, tirx.SeqStmt):
        return sum(_reads_of(part, buffers) for part in node.seq)
    if isinstance(node, tirx.BufferStore):
        return sum(_reads_of(part, buffers) for part in (node.value, *node.indices))
    if isinstance(node, TensorLoad):
        here = any(node.source.same_as(buffer) for buffer in buffers)
        return here + sum(_reads_of(index, buffers) for index in node.indices)
    return sum(_reads_of(part, buffers) for part in operands_of(node))


def is_spatial_program(sch: TVMSchedule) -> bool:
    """Return whether no block of the main function reduces."""
    return bool(_is_spatial_program(get_module(sch)["main"]))


def written_rank(sch: TVMSchedule, block: Any) -> int:
    """Return the number of dimensions of the first buffer that a block writes."""
    return len(get_statement(sch, block).writes[0].source.ty.shape)


def thread_axis(sch: TVMSchedule, loop: Any) -> str:
    """Return the thread axis a loop is bound to, such as ``"threadIdx.x"``; ``""`` if none."""
    binding = get_statement(sch, loop).thread_binding
    return "" if binding is None else str(binding.thread_tag)


def is_in_software_pipeline(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a loop around a block is a software pipeline."""
    return any(_PIPELINE in get_statement(sch, loop).annotations for loop in get_loops(sch, block))


def is_below_root(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block is directly in the root block, not inside another block."""
    sref = get_sref(sch, block)
    return sref.parent is not None and scope_of(sref).parent is None


def common_depth(sch: TVMSchedule, blocks: list[Any]) -> int:
    """Count the outer loops that all of the blocks share."""
    first, *others = blocks
    return shared_depth(sch, list(get_loops(sch, first)), others)


def leaves_cache(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block reads memory that fewer threads share than the memory it writes.

    It moves values out of a cache, such as registers. Who reads them may run on other threads.
    """
    stmt = get_statement(sch, block)
    reads, writes = (
        [_nearness(region.source) for region in regions] for regions in (stmt.reads, stmt.writes)
    )
    return bool(reads and writes) and max(reads) > min(writes)


def _nearness(buffer: Any) -> int:
    """Return how near to one thread a buffer's memory is; registers of all sorts are nearest."""
    kind = str(buffer.scope()).partition(".")[0]
    return _SHARED_BY.index(kind) if kind in _SHARED_BY else len(_SHARED_BY)


def has_plain_binding(sch: TVMSchedule, block: Any) -> bool:
    """Return whether each variable of a block is bound to its own loop or to a constant.

    ``is_trivial_binding`` also requires the order of the loops, which rfactor does not keep.
    """
    values = get_realize(sch, block).iter_values
    loops = [value for value in values if not isinstance(value, tirx.IntImm)]
    if not all(isinstance(value, tirx.Var) for value in loops):
        return False
    return not any(holds(loops[:k], value) for k, value in enumerate(loops))


def has_same_binding(sch: TVMSchedule, block: Any, mod: IRModule) -> bool:
    """Return whether the block of this name in ``mod`` binds its variables to the same values."""
    now = get_realize(sch, block)
    found = [
        realize.iter_values
        for realize in found_in(mod[MAIN].body, SBlockRealize)
        if str(realize.block.name_hint) == str(now.block.name_hint)
    ]
    same = len(found) == 1 and structural_equal(found[0], now.iter_values, map_free_vars=True)
    return bool(same)


def count_consumers(sch: TVMSchedule, block: Any) -> int:
    """Count the blocks that read the results of a block."""
    return len(get_consumers(sch, block))


def has_own_loops(sch: TVMSchedule, block: Any) -> bool:
    """Return whether a block has loops, and they surround no other block."""
    loops = list(get_loops(sch, block))
    return bool(loops) and all(is_single_child(sch, loop) for loop in loops)
