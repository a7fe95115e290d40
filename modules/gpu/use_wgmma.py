"""Matrix products with the warpgroups of Hopper (wgmma, sm_90a).

``UseWGMMA`` is the module. It draws tiles for thread blocks and warpgroups within the machine's
limits, and its steps are instructions: stage operands, multiply, and write the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.analysis import block_facts, constant_extent, require, vector_run
from schedlang.analysis.intrinsics import MatrixProduct
from schedlang.distributions import Categorical, PerfectTile
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr, minimum
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction, sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import check_positive, not_applicable_if_refused
from schedlang.modules.gpu.auto_bind import bind_grid
from schedlang.modules.gpu.finish_threads import pipeline, stage_in_shared
from schedlang.modules.gpu.fragments import copy_by_warps, pad_to_tiles, sample_copies
from schedlang.modules.gpu.matrix_operands import (
    find_matrix_product,
    sample_factor,
    to_fused_matrix_product,
)
from schedlang.modules.gpu.tensor_core_ways import order_weights
from schedlang.modules.gpu.wgmma_intrinsics import (
    ATOM,
    CHUNK,
    DTYPES,
    ROWS,
    SHARED,
    TERMS,
    WARPGROUP,
    WgmmaTile,
    operand_layout,
    result_layout,
)
from schedlang.spaces.module import module

LAYOUTS = ("swizzled", "plain")
# On an H100, the fastest product of 4096 took 255 us swizzled and 438 us plain.
_SWIZZLED = 0.8


@dataclass(frozen=True, slots=True)
class WgmmaWay:
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
) -> WgmmaWay:
    """Choose among ``layouts`` and both orders of B; ``name`` is for the site.

    Raises NotApplicable where wgmma does not compute the types, SpaceError for an unknown layout.
    """
    if isinstance(layouts, str) or not layouts or set(layouts) - set(LAYOUTS):
        raise SpaceError(f"UseWGMMA(layouts={layouts!r}): it takes a list of some of {LAYOUTS}")
    left, right, result = product.dtypes
    require(product.dtypes in DTYPES, f"wgmma does not compute {left} x {right} -> {result}")
    ways = {
        layout + "_trans" * order: WgmmaWay(layout == "swizzled", order)
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
    way: WgmmaWay,
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


# -- Steps of a product: stage operands, multiply, and write the result ---------------------------

# TVM exchanges the parts of rows of 128 bytes in what a block with this annotation writes.
_EXCHANGED = "permuted_layout"


@instruction
def stage_for_warpgroups(
    sch: Schedule, calls: BlockRV, operand: int, loop: LoopRV, width: int | IntExpr, swizzled: bool
) -> BlockRV:
    """Copy what ``calls`` reads below ``loop`` to shared memory, in the layout that wgmma reads.

    ::

        T = A in another layout;  for k0: C += T[i, k0 k1]
        ->  for k0: {by all threads: S[k1 // 8, i, k1 % 8] = A[..];  C += S}

    The block that computed the operand is inlined. Each thread copies ``width`` elements of 2 bytes
    at a time. ``operand_layout`` says what ``swizzled`` means; else, columns start 16 bytes after a
    multiple of 128, so that those that a warp writes lie in different banks.
    """
    strip = ATOM if swizzled else 0
    stage = stage_in_shared(sch, calls, operand, loop, scope=SHARED, strip=strip)
    sch.compute_inline(sch.get_producers(stage)[0])

    def stored(*indices: IntExpr) -> list[IntExpr]:
        *rest, row, column = indices
        return [*rest, *operand_layout(row, column, swizzled=swizzled)]

    sch.transform_layout(stage, ("write", 0), stored, assume_injective_transform=True)
    if swizzled:
        sch.annotate(stage, _EXCHANGED, 1)
    else:
        sch.storage_align(stage, 0, -3, ATOM, CHUNK)
    copy_by_warps(sch, stage, calls, 1, width, by_warp=False, lanes=WARPGROUP)
    return stage


@instruction
def keep_in_registers(
    sch: Schedule,
    calls: BlockRV,
    store: BlockRV,
    loop: LoopRV,
    columns: int | IntExpr,
    width: int,
) -> BlockRV:
    """Compute ``calls`` in registers of a warpgroup, which then writes them; return that block.

    ::

        for k: P += A * B;  C = P  ->  for k: R += A * B;  for tx: for r of tx: C[..] = R[r]

    ``store`` is the block that copies the product, which is inlined; ``columns`` are those of a
    tile, ``width`` the neighbours that a thread writes at a time, 1 or 2. ``loop`` is that of the
    warpgroups. R has one register for elements of all threads: the memory is each thread's own.
    """
    copy = sch.cache_write(calls, 0, "local")
    sch.reverse_compute_at(copy, loop, preserve_unit_loops=True)

    def held(*indices: IntExpr) -> list[IntExpr]:
        *rest, row, column = indices
        return [*rest, column // columns, *result_layout(row, column % columns)]

    sch.transform_layout(copy, ("read", 0), held, assume_injective_transform=True)
    sch.reverse_compute_inline(store)
    rows, across = sch.get_loops(copy)[-2:]
    part, warp, half, row = sch.split(rows, [None, 4, 2, 8])
    eighth, quarter, pair = sch.split(across, [None, 4, 2])
    sch.reorder(warp, row, quarter, part, half, eighth, pair)
    sch.bind(sch.fuse(warp, row, quarter), "threadIdx.x")
    for one in (part, half, eighth):
        sch.unroll(one)
    if width > 1:
        sch.vectorize(pair)
    else:
        sch.unroll(pair)
    return copy


@instruction
def multiply_with_wgmma(
    sch: Schedule,
    calls: BlockRV,
    loop: LoopRV,
    shape: Sequence[int | IntExpr],
    dtype: str,
    transposed: bool,
    swizzled: bool,
) -> None:
    """Compute tiles of ``shape`` (rows, columns, terms) with wgmma, from 0 on before ``loop``.

    ::

        for k: R += A * B (initially 0)  ->  fill(R);  for k: wgmma(R, A, B)

    ``WgmmaTile`` has the meaning of the other arguments.
    """
    rows, columns, terms = shape
    tile = WgmmaTile(int(rows), int(columns), int(terms), dtype, transposed, swizzled)
    fill = sch.decompose_reduction(calls, loop)
    sch.tensorize(calls, tile.product)
    sch.tensorize(fill, tile.fill)
