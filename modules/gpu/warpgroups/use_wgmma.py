"""Matrix products with the warpgroups of Hopper (wgmma, sm_90a)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.analysis import block_facts, constant_extent, require
from schedlang.analysis.einsum import MatrixProduct
from schedlang.analysis.layouts import vector_run
from schedlang.distributions import Categorical, PerfectTile
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr, minimum
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.auto_bind import bind_grid
from schedlang.modules.gpu.fragments import pad_to_tiles
from schedlang.modules.gpu.matrix_operands import find_matrix_product, to_fused_matrix_product
from schedlang.modules.gpu.pipeline import pipeline
from schedlang.modules.gpu.tensor_core_ways import order_weights
from schedlang.modules.gpu.warp_copies import sample_copies
from schedlang.modules.gpu.warp_tiling import sample_factor
from schedlang.modules.gpu.warpgroups.intrinsics import DTYPES
from schedlang.modules.gpu.warpgroups.operand import ATOM, CHUNK, ROWS, TERMS
from schedlang.modules.gpu.warpgroups.steps import (
    keep_in_registers,
    multiply_with_wgmma,
    stage_for_warpgroups,
)
from schedlang.modules.shared.checks import check_positive, not_applicable_if_refused
from schedlang.spaces.module import module

LAYOUTS = ("swizzled", "plain")
# On an H100, the fastest product of 4096 took 255 us swizzled and 438 us plain.
_SWIZZLED = 0.8


@dataclass(frozen=True, slots=True)
class Way:
    """How operands lie in shared memory.

    Attributes
    ----------
    swizzled: in rows of 128 bytes, see ``operand_layout``.
    transposed: B is stored as ``B[n, k]``.
    """

    swizzled: bool
    transposed: bool


def choose_way(
    sch: Schedule, block: BlockRV, product: MatrixProduct, name: str, layouts: Sequence[str]
) -> Way:
    """Choose among ``layouts`` and both orders of B; ``name`` is for the site.

    Raises NotApplicable where wgmma does not compute the types, SpaceError for an unknown layout.
    """
    if isinstance(layouts, str) or not layouts or set(layouts) - set(LAYOUTS):
        raise SpaceError(f"UseWGMMA(layouts={layouts!r}): it takes a list of some of {LAYOUTS}")
    left, right, result = product.dtypes
    require(product.dtypes in DTYPES, f"wgmma does not compute {left} x {right} -> {result}")
    ways = {
        layout + "_trans" * order: Way(layout == "swizzled", order)
        for layout in layouts
        for order in (False, True)
    }
    weights = order_weights(sch, block, product, [way.transposed for way in ways.values()])
    layout = [_SWIZZLED if way.swizzled else 1 - _SWIZZLED for way in ways.values()]
    probs = [x * y for x, y in zip(weights, layout, strict=True)]
    return ways[sch.choose(f"wgmma:{name}", list(ways), probs)]


_COLUMNS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
_TERMS = (16, 32, 64, 128)
_BYTES = 2
_ANY = 2**31 - 1
# Of the part of a padded tile that is of use: waste is rare where another tile fits.
_USE_POWER = 4


@dataclass(frozen=True, slots=True)
class WarpgroupLimits:
    """What the tiles of one thread block may take.

    Attributes
    ----------
    results: elements of the result in the registers of one thread; half of it where a block has
        four warpgroups, whose threads have half of the registers.
    warpgroups: of a block.
    stage_bytes: of both operands that one stage holds in shared memory.
    """

    results: int
    warpgroups: int
    stage_bytes: int


@dataclass(frozen=True, slots=True)
class WarpgroupTiles:
    """The loops around the tiles of warpgroups, and the shape of a tile.

    Attributes
    ----------
    calls: the block of a warpgroup's tile.
    warpgroups: the loop of the warpgroups of a block.
    stage: the reduction loop at which operands are staged in shared memory.
    shape: rows, columns and terms of a tile.
    """

    calls: BlockRV
    warpgroups: LoopRV
    stage: LoopRV
    shape: list[int | IntExpr]


@sampling_instruction
def sample_tile_extent(
    sch: Schedule, loop: LoopRV, extents: Sequence[int], most: int | IntExpr
) -> Categorical:
    """Draw the extent of a tile, at most ``most``: ``for j in 100; 32, 48, 64, 128  ->  64``.

    Of ``extents``, those that are not larger than the loop, rounded up to the first of them. Large
    ones, and those that need little padding, are more probable.
    """
    total, first = constant_extent(sch, loop) or 1, extents[0]
    largest = max(first, min(int(most), -(-total // first) * first))
    usable = [extent for extent in extents if extent <= largest]
    weights = [x * (total / (-(-total // x) * x)) ** _USE_POWER for x in usable]
    return Categorical(tuple(usable), tuple(weights))


@sampling_instruction
def sample_parts(
    sch: Schedule, loop: LoopRV, size: int | IntExpr, bound: int | IntExpr
) -> PerfectTile:
    """Draw how many parts of ``size`` iterations a tile has: ``for i in 256; 64  ->  [2, 2]``.

    At most ``bound``; the extent of the loop is a multiple of ``size``.
    """
    parts = (constant_extent(sch, loop) or 1) // int(size)
    return PerfectTile(parts, 2, max(1, min(int(bound), parts)))


def tile_for_warpgroups(
    sch: Schedule,
    block: BlockRV,
    name: str,
    limits: WarpgroupLimits,
    way: Way,
) -> WarpgroupTiles:
    """Tile a matrix product, pad it to tiles, and bind outer levels to the grid and warpgroups.

    ::

        for i, j, k: C += A * B
        ->  ij0 = blockIdx.y: ij1 = blockIdx.x: i2 = threadIdx.y:
                for k0: block(for i3, j2, k1: C += A * B)

    All draws stay within ``limits``; ``name`` is for the sites.
    """
    *batches, i, j, k = sch.get_loops(block)
    # Rows of elements for each term of a stage, with 8 for the padding of plain layouts.
    lines = limits.stage_bytes // _BYTES
    unit = ATOM if way.swizzled else TERMS
    wide = ATOM if way.swizzled and not way.transposed else CHUNK
    columns = sample_tile_extent(
        sch,
        j,
        [x for x in _COLUMNS if x % wide == 0],
        minimum(2 * limits.results, lines // unit - ROWS - 2 * CHUNK),
        name=f"columns:{name}",
    )
    terms = sample_tile_extent(
        sch,
        k,
        [x for x in _TERMS if x % unit == 0],
        lines // (ROWS + columns + 2 * CHUNK),
        name=f"terms:{name}",
    )
    pad_to_tiles(sch, block, [ROWS, columns, terms])
    # Of 64 rows: as many as registers, and as shared memory hold.
    room = (lines // terms - columns - 2 * CHUNK) // ROWS
    _, high = sample_parts(
        sch, i, ROWS, minimum(2 * limits.results // columns, room), name=f"rows:{name}"
    )
    rows = ROWS * high
    by_registers = minimum(limits.warpgroups, 4 * limits.results // (columns * high))
    _, warpgroups = sample_parts(
        sch, i, rows, minimum(by_registers, room // high), name=f"warpgroups:{name}"
    )
    i, i2, i3 = sch.split(i, [None, warpgroups, rows])
    j, j2 = sch.split(j, [None, columns])
    k, k1 = sch.split(k, [None, terms])
    i, i1 = sch.split(i, sample_factor(sch, i, _ANY, name=f"row_blocks:{name}"))
    j, j1 = sch.split(j, sample_factor(sch, j, _ANY, name=f"column_blocks:{name}"))
    sch.reorder(*batches, i, j, i1, j1, i2, k, i3, j2, k1)
    calls = sch.blockize(i3)
    bind_grid(sch, sch.fuse(*batches, i, j), sch.fuse(i1, j1))
    sch.bind(i2, "threadIdx.y")
    return WarpgroupTiles(calls, i2, k, [rows, columns, terms])


_ARCH = "sm_90a"


@module(name="use_wgmma", before="multi_level_tiling")
def UseWGMMA(  # noqa: N802 - named after the hardware, as UseTensorCore is
    sch: Schedule,
    block: BlockRV,
    *,
    arch: str = _ARCH,
    layouts: Sequence[str] = LAYOUTS,
    depths: Sequence[int] = (1, 2, 3, 4),
    max_results: int = 128,
    max_warpgroups: int = 4,
    shared_bytes: int = 200 * 1024,
) -> None:
    """Compute matrix products with wgmma: 128 threads multiply what lies in shared memory.

    ::

        for i, j, k: C[i, j] += A[i, k] * B[k, j]
        ->  ij0 = blockIdx.y: ij1 = blockIdx.x: i2 = threadIdx.y:
                fill(R)
                for k0: {A_s = A[..]; B_s = B[..];  in shared memory, by all threads
                    fence; barrier; R = wgmma(A_s, B_s, R); wait; barrier}
                C = R

    ``arch`` is that of the target: the module applies to sm_90a only, which alone has wgmma.
    """
    check_positive("UseWGMMA", max_results=max_results, max_warpgroups=max_warpgroups)
    require(arch == _ARCH, f"only {_ARCH} has wgmma, and the target is {arch}")
    product = find_matrix_product(sch, block)
    types, name = product.dtypes, block_facts(sch, block).name
    way = choose_way(sch, block, product, name, layouts)
    with not_applicable_if_refused():
        left, right, store = to_fused_matrix_product(sch, block, way.transposed)
        depth, widths = sample_copies(sch, name, [left, right], types[:2], 2, depths)
        pair = vector_run(sch, store, (1, 2))
        limits = WarpgroupLimits(max_results, max_warpgroups, shared_bytes // depth)
        tiles = tile_for_warpgroups(sch, block, name, limits, way)
        keep_in_registers(sch, tiles.calls, store, tiles.warpgroups, tiles.shape[1], pair)
        for at, operand in enumerate((product.left, product.right)):
            stage_for_warpgroups(sch, tiles.calls, operand, tiles.stage, widths[at], way.swizzled)
        flags = way.transposed, way.swizzled
        multiply_with_wgmma(sch, tiles.calls, tiles.stage, tiles.shape, types[0], *flags)
        if depth > 1:
            pipeline(sch, tiles.stage, [0, 0, depth - 1], async_stages=[0])
