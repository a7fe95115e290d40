"""A register tile of dot-product intrinsics."""

from __future__ import annotations

from schedlang.analysis import LoopKind, block_facts, loop_kind, require
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.register_tile import sample_register_tile
from schedlang.modules.shared.checks import check_positive
from schedlang.spaces.module import module


@module
def dot_tile(sch: Schedule, block: BlockRV, *, lanes: int = 16, registers: int = 32) -> None:
    """Tile a block of intrinsics so that their accumulators stay in registers for all of k.

    ::

        for i, j, k: C   ->   parallel i0, j0: for i1, j1: {for k: unrolled i2, j2: C'; C = C'}

    ``i`` and ``j`` are the last two spatial loops: rows, and vectors of ``lanes`` elements. One
    draw gives both factors of the register tile, so that it fits into ``registers`` vectors.
    """
    check_positive("dot_tile", lanes=lanes, registers=registers)
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
    # Read accumulators in the vectors that wrote them: LLVM then keeps them out of memory.
    *_, row, column = sch.get_loops(result)
    column, vector = sch.split(column, [None, lanes])
    for loop in (i2, j2, row, column):
        sch.unroll(loop)
    sch.vectorize(vector)
