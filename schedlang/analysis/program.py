"""Questions that modules ask about a program while they build a schedule; none is recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from schedlang.errors import NotApplicable
from schedlang.expressions import IndexMap
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.tvm import analysis as _tvm, schedule as _tvm_schedule
from schedlang.tvm.analysis import (
    BlockFacts,
    LoopKind,
    accesses as _accesses,
    buffer_index,
    layout as _layout,
    patterns as _patterns,
)
from schedlang.tvm.analysis.accesses import Footprint, vector_run as _vector_run
from schedlang.tvm.analysis.layout import BlockMoves


def require(condition: bool, reason: str) -> None:
    """Raise ``NotApplicable(reason)`` unless the condition holds."""
    if not condition:
        raise NotApplicable(reason)


def block_facts(sch: Schedule, block: BlockRV) -> BlockFacts:
    """Return name, extents (iterations), buffer counts, operations and annotations of a block."""
    return _tvm.block_facts(sch.raw, sch.raw_value(sch.own(block)))


def constant_extent(sch: Schedule, loop: LoopRV) -> int | None:
    """Return the loop's extent, in iterations; None when it is not constant."""
    return _tvm_schedule.constant_extent(sch.raw, sch.raw_value(sch.own(loop)))


def loop_kind(sch: Schedule, loop: LoopRV) -> LoopKind:
    """Return whether a loop is spatial, a reduction, or opaque (both, or neither)."""
    return _tvm.loop_kind(sch.raw, sch.raw_value(sch.own(loop)))


def loop_kinds(sch: Schedule, loops: list[LoopRV]) -> list[LoopKind]:
    """Return the ``loop_kind`` of each loop."""
    return [loop_kind(sch, loop) for loop in loops]


def has_trivial_binding(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the block variables are the loops around it, in the same order."""
    return bool(_tvm.is_trivial_binding(sch.raw, sch.raw_value(sch.own(block))))


def is_output(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the block writes an output of the function."""
    return bool(_tvm.is_output_block(sch.raw, sch.raw_value(sch.own(block))))


def has_data_reuse(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a read leaves out a spatial variable: tiling then saves memory traffic."""
    return _tvm.has_data_reuse(sch.raw, sch.raw_value(sch.own(block)))


def loop_is_plain(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether the loop is serial and carries no annotation."""
    return _tvm.loop_is_plain(sch.raw, sch.raw_value(sch.own(loop)))


def stores_contiguously(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """Return whether the loop moves only the last index of every buffer that the block writes."""
    return _tvm.stores_contiguously(sch.raw, sch.raw_value(sch.own(block)), sch.raw_value(loop))


def bound_loops(sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[int]:
    """Return the positions of the loops that the block's variables depend on.

    A loop around a block that none depends on repeats the block.
    """
    values = [sch.raw_value(loop) for loop in loops]
    return _tvm.bound_loops(sch.raw, sch.raw_value(sch.own(block)), values)


def branches_along(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """Return whether a condition in the block's value depends on the loop.

    Vectors along such a loop need masks.
    """
    return _accesses.branches_along(
        sch.raw, sch.raw_value(sch.own(block)), sch.raw_value(sch.own(loop))
    )


def condition_strides(sch: Schedule, block: BlockRV) -> list[int]:
    """Return the period of each block variable in the block's condition; 1 without a condition.

    ``if_then_else((i + k) % 2 == 0 and ..., x[(i + k) // 2], 0)  ->  2 for i and k``

    One value in each period has work to do. Where the variable's loop is unrolled by a multiple of
    the period, the compiler knows the condition and computes nothing for the others.
    """
    return _accesses.condition_strides(sch.raw, sch.raw_value(sch.own(block)))


def can_decompose_padding(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """Return whether ``sch.decompose_padding`` applies to the block at the loop."""
    return _patterns.can_decompose_padding(
        sch.raw, sch.raw_value(sch.own(block)), sch.raw_value(sch.own(loop))
    )


def is_single_child(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether the loop's body is one statement."""
    return _tvm.is_single_child(sch.raw, sch.raw_value(sch.own(loop)))


def buffer_shape(
    sch: Schedule, block: BlockRV, role: Literal["read", "write"], index: int
) -> tuple[int, ...]:
    """Return the extents of a buffer that a block reads or writes; -1 for one that varies."""
    return _tvm.buffer_shape(sch.raw, sch.raw_value(sch.own(block)), role, index)


def read_footprints(sch: Schedule, block: BlockRV) -> tuple[Footprint, ...]:
    """Return, for each buffer that a block reads, how much of it a tile of iterations reads."""
    return _accesses.read_footprints(sch.raw, sch.raw_value(sch.own(block)))


def access_strides(sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[list[int]] | None:
    """Return by how many elements one step of a loop moves a region that the block accesses.

    One row for each region, reads first; one column for each loop, 0 where it does not move the
    region. None when a size that is needed is not constant.
    """
    values = [sch.raw_value(sch.own(loop)) for loop in loops]
    return _accesses.access_strides(sch.raw, sch.raw_value(sch.own(block)), values)


def row_length(sch: Schedule, block: BlockRV, loop: LoopRV, most: int) -> int:
    """Return how many iterations of a loop, from the first, write one row of the result.

    ``for x in 12: A_s[i + x // 4, x % 4] = ..  ->  4``. No more than ``most`` are counted.
    """
    raw = sch.raw_value(sch.own(block))
    return _accesses.row_length(sch.raw, raw, sch.raw_value(sch.own(loop)), most)


def read_pattern(sch: Schedule, block: BlockRV) -> tuple[bool, bool]:
    """Return whether each written index is read once (injective), and in order (ordered).

    Both are false when a read's index is not a written index plus or minus a constant.
    """
    return _patterns.read_pattern(sch.raw, sch.raw_value(sch.own(block)))


def count_operations(sch: Schedule, block: BlockRV) -> int:
    """Count arithmetic operations and calls in one iteration, without index arithmetic."""
    return _patterns.count_operations(sch.raw, sch.raw_value(sch.own(block)))


def repeated_operations(sch: Schedule, block: BlockRV) -> int:
    """Count the operations an element costs more once its consumers compute the block.

    ``C = B[i - 1] + B[i] + B[i + 1]  ->  twice the operations of B``: the first read repeats none.
    Index arithmetic does not count, so that clamped borders cost nothing.
    """
    return _patterns.repeated_operations(sch.raw, sch.raw_value(sch.own(block)))


def repeated_producers(sch: Schedule, block: BlockRV) -> int:
    """Count the operations an element costs more once the block computes its producers."""
    return _patterns.repeated_producers(sch.raw, sch.raw_value(sch.own(block)))


def is_spatial_program(sch: Schedule) -> bool:
    """Return whether no block of the program reduces."""
    return _patterns.is_spatial_program(sch.raw)


def written_rank(sch: Schedule, block: BlockRV) -> int:
    """Return the number of dimensions of the first buffer that the block writes."""
    return _patterns.written_rank(sch.raw, sch.raw_value(sch.own(block)))


def thread_axis(sch: Schedule, loop: LoopRV) -> str:
    """Return what the loop is bound to, such as ``"threadIdx.x"``; ``""`` when it is not bound."""
    return _patterns.thread_axis(sch.raw, sch.raw_value(sch.own(loop)))


def is_in_software_pipeline(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a loop around the block is a software pipeline, which counts its blocks."""
    return _patterns.is_in_software_pipeline(sch.raw, sch.raw_value(sch.own(block)))


def is_below_root(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the block stands directly in the root block, not inside another one."""
    return _patterns.is_below_root(sch.raw, sch.raw_value(sch.own(block)))


def common_depth(sch: Schedule, blocks: list[BlockRV]) -> int:
    """Return the number of outer loops that all blocks share."""
    return _patterns.common_depth(sch.raw, [sch.raw_value(sch.own(block)) for block in blocks])


def leaves_cache(sch: Schedule, block: BlockRV) -> bool:
    """Return whether a block reads memory that fewer threads share than the memory it writes.

    Such a block writes a cache back: ``"local"`` to ``"global"``.
    """
    return _patterns.leaves_cache(sch.raw, sch.raw_value(sch.own(block)))


def has_plain_binding(sch: Schedule, block: BlockRV) -> bool:
    """Return whether each block variable is a loop of its own, in any order, or a constant."""
    return _patterns.has_plain_binding(sch.raw, sch.raw_value(sch.own(block)))


def has_first_binding(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the block variables are bound as in the program before scheduling."""
    return _patterns.has_same_binding(sch.raw, sch.raw_value(sch.own(block)), sch.workload.mod)


def count_consumers(sch: Schedule, block: BlockRV) -> int:
    """Return the number of blocks that read what the block writes.

    ``sch.get_consumers`` returns them, but it is recorded: a trace whose other decisions lead to
    more or fewer of them does not replay.
    """
    return _patterns.count_consumers(sch.raw, sch.raw_value(sch.own(block)))


def has_own_loops(sch: Schedule, block: BlockRV) -> bool:
    """Return whether there are loops around the block that contain nothing else."""
    return _patterns.has_own_loops(sch.raw, sch.raw_value(sch.own(block)))


# -- Layouts of operands, and moved data ----------------------------------------------------------


def layout_free_buffers(sch: Schedule) -> tuple[str, ...]:
    """Names of the buffers whose layout the program leaves open (``layout_free_buffers``)."""
    return _layout.layout_free_buffers(sch.raw)


def parameter_names(sch: Schedule) -> tuple[str, ...]:
    """Names of the function's parameters."""
    return _layout.parameter_names(sch.raw)


def reading_blocks(sch: Schedule, buffer: str) -> tuple[str, ...]:
    """Names of the blocks that read the buffer of this name."""
    return _layout.readers(sch.raw, buffer)


def reads_ahead(sch: Schedule, block: BlockRV) -> tuple[bool, ...]:
    """For each read of a block, whether its buffer is known ahead of all calls.

    Such a buffer is a weight (``layout_free_buffers``), or made of weights at the root.
    """
    return _layout.reads_ahead(sch.raw, sch.raw_value(sch.own(block)))


def runs_ahead(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block depends on weights only, so that it need not run in each call."""
    return _layout.runs_ahead(sch.raw, sch.raw_value(sch.own(block)))


def computes_ahead(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block that depends on weights only computes, and makes no more than it reads.

    As a part of its consumer it would run in each call; at the root it runs ahead of all calls.
    """
    return _layout.computes_ahead(sch.raw, sch.raw_value(sch.own(block)))


def suggested_layout(sch: Schedule, block: BlockRV, buffer: str) -> IndexMap | None:
    """The layout in which the block reads the buffer from front to back, in the order of its loops.

    None where the buffer has it already, or where the indices are no tiles of the loops.
    """
    raw = sch.raw_value(sch.own(block))
    return _layout.suggested_layout(sch.raw, raw, buffer_index(sch.raw, raw, buffer, "read"))


def vector_run(sch: Schedule, block: BlockRV, widths: Sequence[int]) -> int:
    """The largest of ``widths`` at which the accesses of a copying block are aligned vectors.

    Along the block's last variable; 1 if none is. Conditions must hold for whole vectors.
    """
    return _vector_run(sch.raw, sch.raw_value(sch.own(block)), widths)


# -- Blocks that only move data -------------------------------------------------------------------


def only_moves_data(sch: Schedule) -> bool:
    """Return whether the program before scheduling computes nothing: see ``Task.moves_data``."""
    return _layout.only_moves_data(sch.workload.func)


def block_moves(sch: Schedule, block: BlockRV) -> BlockMoves:
    """Return along which loops a block loads and stores contiguous elements."""
    return _layout.block_moves(sch.raw, sch.raw_value(sch.own(block)))
