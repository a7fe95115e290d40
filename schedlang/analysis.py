"""What modules ask about a program while they build a schedule; nothing here is recorded."""

from __future__ import annotations

from schedlang.errors import NotApplicable
from schedlang.handles import BlockRV, LoopRV
from schedlang.schedule import Schedule
from schedlang.tvm import analysis as _tvm
from schedlang.tvm import schedule as _tvm_schedule
from schedlang.tvm.analysis import BlockFacts, LoopKind

__all__ = [
    "BlockFacts",
    "LoopKind",
    "block_exists",
    "block_facts",
    "constant_extent",
    "has_data_reuse",
    "has_trivial_binding",
    "is_output",
    "is_single_child",
    "loop_is_plain",
    "loop_kind",
    "loop_kinds",
    "require",
    "stores_contiguously",
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
    """Whether each block variable is just one of the loops around it."""
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


def is_single_child(sch: Schedule, loop: LoopRV) -> bool:
    """Whether the loop's body is one statement."""
    return _tvm.is_single_child(sch.raw, sch.raw_value(sch.own(loop)))


def block_exists(sch: Schedule, block: BlockRV) -> bool:
    """Whether the block is still in the program."""
    return _tvm_schedule.block_exists(sch.raw, sch.raw_value(sch.own(block)))
