"""Tile products of fragments for thread blocks and warps, within shared memory and registers."""

from __future__ import annotations

from dataclasses import dataclass

from schedlang.analysis import constant_extent
from schedlang.distributions import PerfectTile
from schedlang.expressions import IntExpr, minimum
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.auto_bind import bind_grid
from schedlang.modules.gpu.fragments import COLUMNS, ROWS

_MAX_UNROLLED = 4
# Elements that the alignment of a row adds to it at most, and rows that it adds to a tile.
_ROW_PADDING = 24
_ANY = 2**31 - 1


@dataclass(frozen=True, slots=True)
class BlockLimits:
    """What the tiles of one thread block may take.

    Attributes
    ----------
    max_fragments: fragments of the result in the registers of a warp.
    max_warps: warps of a block.
    stage_elements: elements of both operands that one stage holds in shared memory.
    shared_bytes: shared memory for the result on its way out, in bytes.
    """

    max_fragments: int
    max_warps: int
    stage_elements: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class WarpTiles:
    """The loops around products of fragments, and how many fragments a warp computes.

    Attributes
    ----------
    grid: the loop of thread blocks, innermost.
    warps: the loop of the warps of a block.
    stage: the reduction loop at which operands are staged in shared memory.
    step: the reduction loop at which fragments are loaded.
    rows, columns: fragments of the result that a warp computes.
    """

    grid: LoopRV
    warps: LoopRV
    stage: LoopRV
    step: LoopRV
    rows: IntExpr
    columns: IntExpr


@sampling_instruction
def sample_factor(sch: Schedule, loop: LoopRV, bound: int | IntExpr, power: int = 0) -> PerfectTile:
    """Draw a factor of a loop's extent that is at most ``bound``: ``for i in 128  ->  [16, 8]``.

    A factor f has the weight ``f ** power``.
    """
    extent = constant_extent(sch, loop) or 1
    most = max(1, min(int(bound), extent))
    factors = [factor for factor in range(1, most + 1) if extent % factor == 0]
    weights = {-1: {factor: float(factor**power) for factor in factors}} if power else None
    return PerfectTile(extent, 2, most, weights)


def tile_for_warps(
    sch: Schedule, calls: BlockRV, name: str, terms: int, limits: BlockLimits
) -> WarpTiles:
    """Tile products of fragments as SSSRRSRS, and bind the outer levels to the grid and to warps.

    ::

        for i, j, k: C += A * B
        ->  ij0 = blockIdx.y: ij1 = blockIdx.x: ij2 = threadIdx.y:
                for k0: for k1: for i3, j3: for k2: for i4, j4: C += A * B

    The structure is that of MetaSchedule's rule for tensor cores. All draws stay within ``limits``.
    ``terms`` is the number of products that a fragment sums; ``name`` is for the sites.
    """
    *batches, i, j, k = sch.get_loops(calls)
    stage = limits.stage_elements
    # Rows of A and of B that fit into a stage of one fragment of terms.
    lines = stage // (terms + _ROW_PADDING) - 2 * ROWS
    most = limits.max_fragments

    def draw(
        loop: LoopRV, bound: int | IntExpr, what: str, power: int = 0
    ) -> tuple[LoopRV, LoopRV, IntExpr]:
        factors = sample_factor(sch, loop, bound, power, name=f"{what}:{name}")
        outer, inner = sch.split(loop, factors)
        return outer, inner, factors[1]

    half = lines // (2 * ROWS)
    i, i4, m4 = draw(i, minimum(minimum(_MAX_UNROLLED, half), most), "rows_inner")
    j, j4, n4 = draw(j, minimum(minimum(_MAX_UNROLLED, half), most // m4), "columns_inner")
    i, i3, m3 = draw(i, minimum(half // m4, most // (m4 * n4)), "rows_outer", 1)
    j, j3, n3 = draw(j, minimum(half // n4, most // (m4 * n4 * m3)), "columns_outer", 1)
    rows, columns = m3 * m4, n3 * n4
    # The result leaves through shared memory, a row of fragments of each warp at a time.
    warps = minimum(limits.max_warps, limits.shared_bytes // (4 * ROWS * COLUMNS * columns))
    i, i2, m2 = draw(i, minimum(warps, (lines // ROWS - columns) // rows), "row_warps")
    j, j2, n2 = draw(
        j, minimum(warps // m2, (lines // ROWS - rows * m2) // columns), "column_warps"
    )
    high, wide = ROWS * rows * m2, COLUMNS * columns * n2
    depths = (stage - _ROW_PADDING * (high + wide)) // (high + wide + _ROW_PADDING + ROWS) // terms
    k, k2, inner = draw(k, minimum(_MAX_UNROLLED, depths), "terms_inner")
    k, k1, _ = draw(k, depths // inner, "terms", 1)
    i, i1, _ = draw(i, _ANY, "row_blocks")
    j, j1, _ = draw(j, _ANY, "column_blocks")
    sch.reorder(*batches, i, j, i1, j1, i2, j2, k, k1, i3, j3, k2, i4, j4)
    grid = bind_grid(sch, sch.fuse(*batches, i, j), sch.fuse(i1, j1))
    warp = sch.fuse(i2, j2)
    sch.bind(warp, "threadIdx.y")
    return WarpTiles(grid, warp, k, k1, rows, columns)
