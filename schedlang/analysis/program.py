"""What modules ask about a program while they build a schedule; nothing here is recorded."""

from __future__ import annotations

from typing import Literal

from schedlang.errors import NotApplicable
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.tvm import analysis as _tvm
from schedlang.tvm import schedule as _tvm_schedule
from schedlang.tvm.analysis import BlockFacts, LoopKind
from schedlang.tvm.analysis import branches as _branches
from schedlang.tvm.analysis import patterns as _patterns
from schedlang.tvm.analysis import strides as _tvm_strides

__all__ = [
    "BlockFacts",
    "LoopKind",
    "access_strides",
    "block_exists",
    "block_facts",
    "branches_along",
    "buffer_shape",
    "common_depth",
    "condition_strides",
    "constant_extent",
    "count_consumers",
    "count_operations",
    "has_data_reuse",
    "has_own_loops",
    "has_plain_binding",
    "has_trivial_binding",
    "is_below_root",
    "is_output",
    "is_single_child",
    "is_spatial_program",
    "loop_is_plain",
    "loop_kind",
    "loop_kinds",
    "read_pattern",
    "require",
    "stores_contiguously",
    "thread_axis",
    "written_rank",
]


def require(condition: bool, reason: str) -> None:
    """Raise ``NotApplicable(reason)`` unless the condition holds."""
    if not condition:
        raise NotApplicable(reason)


def block_facts(sch: Schedule, block: BlockRV) -> BlockFacts:
    """Name, extents (iterations), buffer counts, operations and annotations of a block."""
    return _tvm.block_facts(sch.raw, sch.raw_value(sch.own(block)))


def constant_extent(sch: Schedule, loop: LoopRV) -> int | None:
    """The loop's extent, in iterations; None when it is not constant."""
    return _tvm_schedule.constant_extent(sch.raw, sch.raw_value(sch.own(loop)))


def loop_kind(sch: Schedule, loop: LoopRV) -> LoopKind:
    """Whether a loop is spatial, a reduction, or opaque (both, or neither)."""
    return _tvm.loop_kind(sch.raw, sch.raw_value(sch.own(loop)))


def loop_kinds(sch: Schedule, loops: list[LoopRV]) -> list[LoopKind]:
    """``loop_kind`` of each."""
    return [loop_kind(sch, loop) for loop in loops]


def has_trivial_binding(sch: Schedule, block: BlockRV) -> bool:
    """Whether the block variables are the loops around it, in the same order."""
    return bool(_tvm.is_trivial_binding(sch.raw, sch.raw_value(sch.own(block))))


def is_output(sch: Schedule, block: BlockRV) -> bool:
    """Whether the block writes an output of the function."""
    return bool(_tvm.is_output_block(sch.raw, sch.raw_value(sch.own(block))))


def has_data_reuse(sch: Schedule, block: BlockRV) -> bool:
    """Whether some read does not use all spatial variables: tiling then saves memory traffic."""
    return _tvm.has_data_reuse(sch.raw, sch.raw_value(sch.own(block)))


def loop_is_plain(sch: Schedule, loop: LoopRV) -> bool:
    """Whether the loop is serial and carries no annotation."""
    return _tvm.loop_is_plain(sch.raw, sch.raw_value(sch.own(loop)))


def stores_contiguously(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """Whether the loop moves only the last index of every buffer that the block writes."""
    return _tvm.stores_contiguously(sch.raw, sch.raw_value(sch.own(block)), sch.raw_value(loop))


def branches_along(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """Whether a condition in the block's value depends on the loop: its vectors need masks."""
    return _branches.branches_along(
        sch.raw, sch.raw_value(sch.own(block)), sch.raw_value(sch.own(loop))
    )


def condition_strides(sch: Schedule, block: BlockRV) -> list[int]:
    """For each variable of a block, of how many of its values one has work to do at a time.

    ``if_then_else((i + k) % 2 == 0 and ..., x[(i + k) // 2], 0)  ->  2 for i and k``

    Where the loops of such variables are unrolled by multiples of it, the condition is known when
    the code is made, and what it leaves out is not computed. 1 where there is none.
    """
    return _branches.condition_strides(sch.raw, sch.raw_value(sch.own(block)))


def is_single_child(sch: Schedule, loop: LoopRV) -> bool:
    """Whether the loop's body is one statement."""
    return _tvm.is_single_child(sch.raw, sch.raw_value(sch.own(loop)))


def block_exists(sch: Schedule, block: BlockRV) -> bool:
    """Whether the block is still in the program."""
    return _tvm_schedule.block_exists(sch.raw, sch.raw_value(sch.own(block)))


def buffer_shape(
    sch: Schedule, block: BlockRV, role: Literal["read", "write"], index: int
) -> tuple[int, ...]:
    """Extents of a buffer that a block reads or writes; -1 where one is not constant."""
    return _tvm.buffer_shape(sch.raw, sch.raw_value(sch.own(block)), role, index)


def access_strides(sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[list[int]] | None:
    """Elements by which a step of each loop moves each region that the block reads or writes.

    One row a region, reads first, 0 where the loop does not move it; None when a size that has to
    be known is not constant.
    """
    values = [sch.raw_value(sch.own(loop)) for loop in loops]
    return _tvm_strides.access_strides(sch.raw, sch.raw_value(sch.own(block)), values)


def read_pattern(sch: Schedule, block: BlockRV) -> tuple[bool, bool]:
    """Whether each index that the block writes is read once (injective), and in order (ordered).

    Both are false where a read's index is no written index plus or minus a constant.
    """
    return _patterns.read_pattern(sch.raw, sch.raw_value(sch.own(block)))


def count_operations(sch: Schedule, block: BlockRV) -> int:
    """Arithmetic operations and calls in one iteration of the block, without index arithmetic."""
    return _patterns.count_operations(sch.raw, sch.raw_value(sch.own(block)))


def is_spatial_program(sch: Schedule) -> bool:
    """Whether no block of the program reduces."""
    return _patterns.is_spatial_program(sch.raw)


def written_rank(sch: Schedule, block: BlockRV) -> int:
    """Number of dimensions of the first buffer that the block writes."""
    return _patterns.written_rank(sch.raw, sch.raw_value(sch.own(block)))


def thread_axis(sch: Schedule, loop: LoopRV) -> str:
    """What the loop is bound to, such as ``"threadIdx.x"``; ``""`` when it is not bound."""
    return _patterns.thread_axis(sch.raw, sch.raw_value(sch.own(loop)))


def is_below_root(sch: Schedule, block: BlockRV) -> bool:
    """Whether the block stands in the root block itself, not inside another block."""
    return _patterns.is_below_root(sch.raw, sch.raw_value(sch.own(block)))


def common_depth(sch: Schedule, blocks: list[BlockRV]) -> int:
    """How many outer loops all of the blocks share."""
    return _patterns.common_depth(sch.raw, [sch.raw_value(sch.own(block)) for block in blocks])


def has_plain_binding(sch: Schedule, block: BlockRV) -> bool:
    """Whether each block variable is a loop of its own, in any order, or a constant."""
    return _patterns.has_plain_binding(sch.raw, sch.raw_value(sch.own(block)))


def count_consumers(sch: Schedule, block: BlockRV) -> int:
    """How many blocks read what the block writes.

    ``sch.get_consumers`` gives them, but it is recorded, and a trace with other decisions in which
    there are more or fewer does not replay.
    """
    return _patterns.count_consumers(sch.raw, sch.raw_value(sch.own(block)))


def has_own_loops(sch: Schedule, block: BlockRV) -> bool:
    """Whether there are loops around the block, and nothing else in them."""
    return _patterns.has_own_loops(sch.raw, sch.raw_value(sch.own(block)))
