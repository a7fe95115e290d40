"""Functions that compute nothing and only move data: reshape, transpose, take, concatenate."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad

from schedlang.tvm.analysis.nests.statements import Statement, statement_of
from schedlang.tvm.program import block_realizes
from schedlang.tvm.schedule import TVMSchedule
from schedlang.tvm.values import choice_of, found_in, has_loads


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
