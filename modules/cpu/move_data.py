"""Closed-form schedules of programs that compute nothing and only move data."""

from __future__ import annotations

import math

from schedlang.analysis import (
    BlockMoves,
    block_moves,
    constant_extent,
    is_single_child,
    loop_is_plain,
    only_moves_data,
    require,
)
from schedlang.analysis.concurrency import is_inside_loops
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import check_positive, complement
from schedlang.modules.shared.finish import every_block, may_vectorize, widest_vector
from schedlang.spaces.module import module

SIDES = ("stores", "loads")
_LINE_BYTES = 64
# Tiles of a loop that no better tile divides; a predicate guards the last one.
_UNEVEN = 8
_JOBS_PER_CORE = 8
# Bytes that are read and written while threads are started and waited for, about; from the first on
# they may pay, from the second on they nearly always do.
_MAYBE_THREADS = 2**17
_THREADS = 2**20


@instruction
def move_block(sch: Schedule, block: BlockRV, side: str, jobs: int) -> None:
    """Finish a block that only moves data, for its shapes.

    ::

        for i: for j: B[i, j] = A[j, i]
        ->  parallel i0 j0: for j1 in 16: vectorized i1 in 16: B[..] = A[..]

    A block that reads along another loop than it stores is tiled along both, a cache line each, so
    that lines are used whole. ``side`` is the loop that runs in lanes: ``"stores"`` for the one
    along which elements are stored contiguously, ``"loads"`` for the other. Where the source
    depends on the place, as in a concatenation, the innermost loop is cut at the borders. Outer
    loops are fused and run in parallel until they give ``jobs`` iterations; 0 keeps them serial.
    """
    sch.overlap_last_tiles()
    loops = sch.get_loops(block)
    if not all(_is_simple(sch, loop) for loop in loops):
        return
    moves = block_moves(sch, block)
    inner = 0
    if moves.stored is not None and moves.loaded is not None:
        inner = 2 * _tile(sch, block, loops, moves, side)
    elif moves.stored is not None and moves.sources > 1 and moves.stored in moves.guarded:
        sch.annotate(loops[moves.stored], "pragma_loop_partition_hint", 1)
    if jobs > 0 and not is_inside_loops(sch, block):
        _parallelize(sch, sch.get_loops(block), jobs, inner or 1)


@module(at="root", stage="finish")
def move_data(sch: Schedule, *, cores: int = 1) -> None:
    """Finish a program that only moves data: one choice at most, and nothing is drawn.

    ::

        for i: for j: B[i, j] = A[j, i]
        ->  parallel i0 j0: for j1 in 16: vectorized i1 in 16: B[..] = A[..]

    A transpose chooses the loop that runs in lanes. Other programs of 128 KiB or more choose
    whether they run on ``cores`` threads; smaller ones are serial. Transposes of 128 KiB or more
    get threads.
    """
    check_positive("move_data", cores=cores)
    require(only_moves_data(sch), "it computes")
    blocks = every_block(sch)
    moves = [block_moves(sch, block) for block in blocks]
    moved = sum(one.bytes for one in moves)
    side, threads = SIDES[0], moved >= _MAYBE_THREADS and cores > 1
    if any(one.stored is not None and one.loaded is not None for one in moves):
        side = sch.choose("lanes_along", SIDES, (0.75, 0.25))
    elif threads:
        prob = 0.75 if moved >= _THREADS else 0.25
        threads = sch.choose("threads", (True, False), (prob, complement(prob)))
    jobs = cores * _JOBS_PER_CORE if threads else 0
    for block in blocks:
        move_block(sch, block, side, jobs)


def _is_simple(sch: Schedule, loop: LoopRV) -> bool:
    return loop_is_plain(sch, loop) and constant_extent(sch, loop) is not None


def _tile(sch: Schedule, block: BlockRV, loops: list[LoopRV], moves: BlockMoves, side: str) -> bool:
    """Tile the loops that the block stores and loads along; return whether that was possible."""
    assert moves.stored is not None and moves.loaded is not None
    pair = [loops[moves.stored], loops[moves.loaded]]
    if not all(may_vectorize(sch, block, loop) for loop in pair):
        return False
    outer, inner = [], []
    for loop in pair:
        extent = constant_extent(sch, loop) or 1
        size = widest_vector(extent, _LINE_BYTES // moves.element_bytes)
        uneven = size < min(_UNEVEN, extent)
        first, second = sch.split(loop, [None, _UNEVEN if uneven else size])
        if uneven:
            sch.annotate(first, "pragma_loop_partition_hint", 1)
        outer.append(first)
        inner.append(second)
    others = [loop for loop in loops if loop not in pair]
    stored, loaded = inner
    lanes, rows = (stored, loaded) if side == SIDES[0] else (loaded, stored)
    sch.reorder(*others, outer[1], outer[0], rows, lanes)
    sch.vectorize(lanes)
    return True


def _parallelize(sch: Schedule, loops: list[LoopRV], jobs: int, inner: int) -> None:
    """Run outer loops in parallel; the ``inner`` innermost ones stay as they are."""
    fused: list[LoopRV] = []
    extents: list[int] = []
    for loop in loops[: len(loops) - inner]:
        if not loop_is_plain(sch, loop):  # it is cut at its end
            break
        fused.append(loop)
        extents.append(constant_extent(sch, loop) or 1)
        if math.prod(extents) >= jobs or not is_single_child(sch, loop):
            break
    if math.prod(extents) > 1:
        sch.parallel(sch.fuse(*fused) if len(fused) > 1 else fused[0])
    elif inner == 1 and loop_is_plain(sch, loops[-1]):
        extent = constant_extent(sch, loops[-1]) or 1
        parts = widest_vector(extent, jobs)
        if parts > 1:
            sch.parallel(sch.split(loops[-1], [parts, None])[0])
