"""Analyses of blocks that only move data, for modules; no call is recorded."""

from __future__ import annotations

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.tvm.analysis import layout as _tvm
from schedlang.tvm.analysis.layout import BlockMoves

__all__ = ["BlockMoves", "block_moves", "only_moves_data"]


def only_moves_data(sch: Schedule) -> bool:
    """Return whether the program before scheduling computes nothing: see ``Task.moves_data``."""
    return _tvm.only_moves_data(sch.workload.func)


def block_moves(sch: Schedule, block: BlockRV) -> BlockMoves:
    """Return along which loops a block loads and stores contiguous elements."""
    return _tvm.block_moves(sch.raw, sch.raw_value(sch.own(block)))
