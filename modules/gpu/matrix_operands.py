"""Bring a sum of products into a matrix product (im2col by indices), and tile it for warps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedlang.analysis import (
    block_facts,
    constant_extent,
    count_operations,
    has_trivial_binding,
    require,
)
from schedlang.analysis.intrinsics import MatrixProduct, matrix_product
from schedlang.distributions import PerfectTile
from schedlang.errors import InstructionError, NotApplicable
from schedlang.expressions import IntExpr, minimum
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction, sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.auto_bind import bind_grid
from schedlang.modules.gpu.fragments import COLUMNS, ROWS
from schedlang.modules.inlining import auto_inline

_INLINE = auto_inline(inline_branches=True, inline_expensive=True)


def inline_producers(sch: Schedule, block: BlockRV, *, copies_only: bool = False) -> None:
    """Inline the element-wise blocks that a block reads, and those that they read.

    ::

        P = A if inside else 0; T = P transposed; B = T   ->   B = A transposed if inside else 0

    With ``copies_only``, blocks that compute or branch stay: transposes and reshapes do not.
    """
    for producer in sch.get_producers(block):
        inline_producers(sch, producer, copies_only=copies_only)
        facts = block_facts(sch, producer)
        branches = facts.has_if_then_else or bool(facts.operations)
        if copies_only and (branches or count_operations(sch, producer)):
            continue
        mark = sch.mark()
        try:
            _INLINE(sch, producer)
        except NotApplicable:
            sch.rollback(mark)


def inline_consumers(sch: Schedule, block: BlockRV) -> None:
    """Inline the element-wise blocks that read a block into it: bias, activation, conversion.

    ::

        C = P; D = C + bias; E = max(D, 0)   ->   E = max(P + bias, 0)
    """
    while len(consumers := sch.get_consumers(block)) == 1:
        mark = sch.mark()
        try:
            sch.reverse_compute_inline(consumers[0])
        except InstructionError:
            sch.rollback(mark)
            return


def find_matrix_product(sch: Schedule, block: BlockRV) -> MatrixProduct:
    """Return what product an unscheduled block computes, with copies in front of it inlined.

    Raises ``NotApplicable`` for other blocks.
    """
    require(has_trivial_binding(sch, block), "it is scheduled already")
    inline_producers(sch, block, copies_only=True)
    product = matrix_product(sch, block)
    if not isinstance(product, MatrixProduct):
        raise NotApplicable(product)
    return product


def to_fused_matrix_product(
    sch: Schedule, block: BlockRV, transposed: bool
) -> tuple[BlockRV, BlockRV, BlockRV]:
    """Do what ``to_matrix_product`` does, then inline the blocks before A and B and behind C."""
    left, right, store = to_matrix_product(sch, block, transposed)
    inline_producers(sch, left)
    inline_producers(sch, right)
    inline_consumers(sch, store)
    return left, right, store


@instruction
def to_matrix_product(sch: Schedule, block: BlockRV, transposed: bool) -> list[BlockRV]:
    """Index a sum of products as a matrix product; return the blocks that copy A, B and C.

    ::

        C[n, h, w, co] += X[n, h + rh, w + rw, ci] * W[rh, rw, ci, co]
        ->  A[nhw, rh rw ci] = X[..];  B[rh rw ci, co] = W[..];  P[m, n] += A[m, k] * B[k, n];
            C[..] = P[..]

    The variables of a block that are rows, columns or terms become one index each, and batches
    stay in front (``schedlang.analysis.intrinsics.matrix_product``). With ``transposed``, B is
    stored as ``B[n, k]``. The copies are there to be inlined. (MetaSchedule's
    TransformWithTensorIntrin.)
    """
    product = matrix_product(sch, block)
    assert isinstance(product, MatrixProduct)
    rows, columns, terms = product.rows, product.columns, product.terms
    sides = {
        ("write", 0): (rows, columns),
        ("read", product.left): (rows, terms),
        ("read", product.right): (columns, terms) if transposed else (terms, columns),
    }
    copies = {buffer: sch.reindex(block, buffer) for buffer in sides}
    for buffer, groups in sides.items():
        sch.transform_layout(
            block, buffer, _fused(product, *groups), assume_injective_transform=True
        )
    for buffer, groups in sides.items():
        sch.transform_block_layout(copies[buffer], _fused(product, *groups))
    sch.transform_block_layout(block, _fused(product, rows, columns, terms))
    store, left, right = copies.values()
    return [left, right, store]


def _fused(product: MatrixProduct, *groups: tuple[int, ...]) -> Callable[..., list[IntExpr | int]]:
    """Return the map from the variables that index a buffer to batches and one index a group."""
    used = sorted({*product.batches, *(at for group in groups for at in group)})

    def index(*variables: IntExpr) -> list[IntExpr | int]:
        by_position = dict(zip(used, variables, strict=True))
        indices: list[IntExpr | int] = [by_position[at] for at in product.batches]
        for first, *others in groups:
            total = by_position[first]
            for at in others:
                total = total * product.extents[at] + by_position[at]
            indices.append(total)
        return indices

    return index


# -- Tiles of fragments for thread blocks and warps, within shared memory and registers -----------

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
