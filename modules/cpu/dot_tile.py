"""A register tile of dot-product intrinsics."""

from __future__ import annotations

from schedlang.analysis import LoopKind, block_facts, loop_kind, require
from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.register_tile import sample_register_tile
from schedlang.spaces.module import module


@module
def dot_tile(sch: Schedule, block: BlockRV, *, lanes: int = 16, registers: int = 32) -> None:
    """Tile a block of intrinsics so that their accumulators stay in registers for all of k.

    ::

        for i, j, k: C   ->   parallel i0, j0: for i1, j1: {for k: unrolled i2, j2: C'; C = C'}

    ``i`` and ``j``, the last two spatial loops, are rows and vectors of ``lanes`` elements. Their
    register tile is drawn together, so that it fits ``registers``.
    """
    if lanes < 1 or registers < 1:
        raise SpaceError(f"dot_tile(lanes={lanes}, registers={registers}): give at least 1")
    loops = sch.get_loops(block)
    spatial = [loop for loop in loops if loop_kind(sch, loop) == LoopKind.SPATIAL]
    steps = [loop for loop in loops if loop_kind(sch, loop) == LoopKind.REDUCTION]
    require(len(spatial) >= 2, "it has no rows and columns")
    *outer, i, j = spatial
    name = block_facts(sch, block).name
    # A vector is one iteration here: the intrinsic fills its lanes.
    rows, vectors = sample_register_tile(
        sch, [i, j], operands=[[0], [1]], lanes=1, registers=registers, name=f"registers:{name}"
    )
    i, i2 = sch.split(i, [None, rows])
    j, j2 = sch.split(j, [None, vectors])
    i0, i1 = sch.split(i, sch.sample_perfect_tile(i, 2, None, name=f"rows:{name}"))
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, None, name=f"vectors:{name}"))
    sch.reorder(*outer, i0, j0, i1, j1, *steps, i2, j2)
    result = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(result, j1, preserve_unit_loops=True)
    sch.parallel(sch.fuse(*outer, i0, j0))
    # Accumulators are read in vectors as they are written: then they need no memory.
    *_, row, column = sch.get_loops(result)
    column, vector = sch.split(column, [None, lanes])
    for loop in (i2, j2, row, column):
        sch.unroll(loop)
    sch.vectorize(vector)
