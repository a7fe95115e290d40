"""Analyses of operand layouts and of moved data, for modules; no call is recorded."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.expressions import IndexMap
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.tvm.analysis import buffer_index
from schedlang.tvm.analysis import layout as _tvm
from schedlang.tvm.analysis.accesses import vector_run as _vector_run
from schedlang.tvm.analysis.layout import BlockMoves

__all__ = [
    "BlockMoves",
    "block_moves",
    "computes_ahead",
    "layout_free_buffers",
    "only_moves_data",
    "parameter_names",
    "reading_blocks",
    "reads_ahead",
    "runs_ahead",
    "suggested_layout",
    "vector_run",
]


def layout_free_buffers(sch: Schedule) -> tuple[str, ...]:
    """Names of the buffers whose layout the program leaves open (``layout_free_buffers``)."""
    return _tvm.layout_free_buffers(sch.raw)


def parameter_names(sch: Schedule) -> tuple[str, ...]:
    """Names of the function's parameters."""
    return _tvm.parameter_names(sch.raw)


def reading_blocks(sch: Schedule, buffer: str) -> tuple[str, ...]:
    """Names of the blocks that read the buffer of this name."""
    return _tvm.readers(sch.raw, buffer)


def reads_ahead(sch: Schedule, block: BlockRV) -> tuple[bool, ...]:
    """For each read of a block, whether its buffer is known ahead of all calls.

    Such a buffer is a weight (``layout_free_buffers``), or made of weights at the root.
    """
    return _tvm.reads_ahead(sch.raw, sch.raw_value(sch.own(block)))


def runs_ahead(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block depends on weights only, so that it need not run in each call."""
    return _tvm.runs_ahead(sch.raw, sch.raw_value(sch.own(block)))


def computes_ahead(sch: Schedule, block: BlockRV) -> bool:
    """Whether a block that depends on weights only computes, and makes no more than it reads.

    As a part of its consumer it would run in each call; at the root it runs ahead of all calls.
    """
    return _tvm.computes_ahead(sch.raw, sch.raw_value(sch.own(block)))


def suggested_layout(sch: Schedule, block: BlockRV, buffer: str) -> IndexMap | None:
    """The layout in which the block reads the buffer from front to back, in the order of its loops.

    None where the buffer has it already, or where the indices are no tiles of the loops.
    """
    raw = sch.raw_value(sch.own(block))
    return _tvm.suggested_layout(sch.raw, raw, buffer_index(sch.raw, raw, buffer, "read"))


def vector_run(sch: Schedule, block: BlockRV, widths: Sequence[int]) -> int:
    """The largest of ``widths`` at which the accesses of a copying block are aligned vectors.

    Along the block's last variable; 1 if none is. Conditions must hold for whole vectors.
    """
    return _vector_run(sch.raw, sch.raw_value(sch.own(block)), widths)


# -- Blocks that only move data -------------------------------------------------------------------


def only_moves_data(sch: Schedule) -> bool:
    """Return whether the program before scheduling computes nothing: see ``Task.moves_data``."""
    return _tvm.only_moves_data(sch.workload.func)


def block_moves(sch: Schedule, block: BlockRV) -> BlockMoves:
    """Return along which loops a block loads and stores contiguous elements."""
    return _tvm.block_moves(sch.raw, sch.raw_value(sch.own(block)))
