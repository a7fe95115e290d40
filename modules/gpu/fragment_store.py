"""Write fragments of a result to global memory, through shared memory."""

from __future__ import annotations

from schedlang.analysis import thread_axis
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.fragments import COLUMNS, ROWS
from schedlang.modules.gpu.warp_copies import SHARED


@instruction
def store_fragments(
    sch: Schedule,
    calls: BlockRV,
    loop: LoopRV,
    scope: str,
    rows: int | IntExpr,
    columns: int | IntExpr,
) -> list[BlockRV]:
    """Compute ``calls`` in fragments, and copy them out below ``loop``, a row of them at a time.

    ::

        for i, j, k: C += A * B
        ->  for i, j, k: F += A * B;
            for row: {for column: block(S[column] = F[row, column]);  for x: C[..x..] = S[x]}

    F is in ``scope``, ``rows`` x ``columns`` fragments for each warp, and S in shared memory.
    ``loop`` is that of a thread block, or that of a warp, which then copies its own part. Returns
    the block that stores fragments, the one of an element of it, and the copy.
    """

    def packed(*indices: IntExpr) -> list[IntExpr]:
        *rest, i, j = indices
        row, column = i // ROWS, j // COLUMNS
        tile = [row // rows, column // columns, row % rows, column % columns]
        return [*rest, *tile, i % ROWS, j % COLUMNS]

    by_warp = thread_axis(sch, loop).startswith("threadIdx")
    sch.transform_layout(calls, ("write", 0), packed, assume_injective_transform=True)
    # In shared memory, what a warp copies would include the parts of the others.
    copy = sch.cache_write(calls, 0, "local" if by_warp else SHARED)
    sch.reverse_compute_at(copy, loop, preserve_unit_loops=True)
    element = sch.cache_write(calls, 0, scope)
    warp_row, warp_column, row, column = sch.get_loops(copy)[-6:-2]
    sch.reorder(row, warp_row, warp_column, column)
    sch.compute_at(element, row, preserve_unit_loops=True)
    if by_warp:
        sch.set_scope(element, 0, SHARED)
    else:
        sch.bind(sch.fuse(*sch.get_loops(element)[-6:-4]), "threadIdx.y")
    return [sch.blockize(sch.get_loops(element)[-2]), element, copy]
