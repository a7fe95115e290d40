"""Draw tiles for the blocks and threads of a GPU, each with a view to those drawn before.

A tile by itself says little: the threads of a block are the product of the thread factors of all
loops, and its shared memory depends on all tiles. Each draw therefore takes the tiles of the other
loops, and its prior prefers what leads to a program that a GPU runs well.
"""

from __future__ import annotations

from schedlang.distributions import PerfectTile
from schedlang.distributions.tiles.divisors import divisors
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV
from schedlang.language.macros import sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.thread_tile_prior import (
    REDUCTION_LEVELS,
    SPATIAL_LEVELS,
    TileView,
    reduction_weights,
    spatial_weights,
)


@sampling_instruction
def sample_thread_tile(
    sch: Schedule,
    block: BlockRV,
    variable: int,
    drawn: list[list[int]],
    max_innermost_factor: int,
    depth: int | IntExpr,
    sms: int,
    max_threads_per_block: int,
    shared_bytes: int,
) -> PerfectTile:
    """Draw the tile of a block's variable: five factors if it is spatial, else three.

    ``i, j, k in 128; variable 0; [[], [], []]  ->  [2, 1, 16, 4, 1]``: blocks, virtual threads,
    threads, and two levels inside a thread

    ``drawn`` has the tile of each variable, ``[]`` where it is still to be drawn; spatial ones come
    first. The prior prefers whole warps, 64 to 512 threads, at least ``sms`` blocks, results that
    fit into registers, neighbouring threads that store neighbouring results, few bank conflicts,
    and operands that fit into ``shared_bytes``, ``depth - 1`` times (``overlap_copies``; 0 is not
    pipelined), in rows that fill memory sectors. Nothing has probability 0.
    """
    view = TileView.of(sch, block, drawn)
    copies = max(1, int(depth) - 1)
    if view.kinds[variable] == "S":
        levels = SPATIAL_LEVELS
        weights = spatial_weights(view, variable, copies, sms, max_threads_per_block, shared_bytes)
    else:
        levels = REDUCTION_LEVELS
        weights = reduction_weights(view, variable, copies, shared_bytes)
    extent = view.extents[variable]
    tables = {
        level: {factor: weight(factor) for factor in divisors(extent)}
        for level, weight in weights.items()
    }
    return PerfectTile(extent, levels, max_innermost_factor, tables)
