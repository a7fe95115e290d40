"""Fragments: the parts of matrices that a warp holds for its tensor cores, and their intrinsics.

A matrix is padded and split to fragments, whose loads and products become tensor intrinsics. The
warps of a thread block copy operands to shared memory, and results back to global memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedlang.analysis import block_facts, thread_axis, vector_run
from schedlang.distributions import Categorical
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction, sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.auto_bind import threads_around
from schedlang.modules.gpu.finish_threads import stage_in_shared, vector_widths

ROWS = COLUMNS = 16
WARP = 32


@dataclass(frozen=True, slots=True)
class Fragments:
    """One way to multiply 16 x ``terms`` by ``terms`` x 16 elements with tensor cores.

    Attributes
    ----------
    terms: products that are summed by one call.
    transposed: whether B is stored as ``B[n, k]``.
    scopes: where fragments of A, of B and of the result are.
    intrinsics: names of those that load A, load B, multiply, store and fill.
    lane_elements: neighbouring elements of an operand's row that one lane of the warp holds; 0 for
        ``wmma``, whose fragments are opaque.
    """

    terms: int
    transposed: bool
    scopes: tuple[str, str, str]
    intrinsics: list[str]
    lane_elements: int = 0

    @property
    def shapes(self) -> tuple[list[int], list[int]]:
        """Rows and columns of fragments of A and of B, as they are stored."""
        right = [COLUMNS, self.terms] if self.transposed else [self.terms, COLUMNS]
        return [ROWS, self.terms], right


@instruction
def split_to_fragments(sch: Schedule, block: BlockRV, terms: int) -> BlockRV:
    """Make a block of one product of fragments; return the block of all of them.

    ::

        for i in 100, j in 100, k in 100: C += A * B
        ->  for i0 in 7, j0 in 7, k0 in 7: block(for i1 in 16, j1 in 16, k1 in 16: C += A * B)

    Extents are rounded up to multiples of fragments: operands are zero outside, and the rest of
    the result is dropped. The copies that padding adds are inlined into their neighbours.
    """
    loops = sch.get_loops(block)
    shape = [ROWS, COLUMNS, terms]
    _pad(sch, block, shape)
    parts = [
        sch.split(loop, [None, extent]) for loop, extent in zip(loops[-3:], shape, strict=True)
    ]
    sch.reorder(*(outer for outer, _ in parts), *(inner for _, inner in parts))
    return sch.blockize(parts[0][1])


@instruction
def pad_to_tiles(sch: Schedule, block: BlockRV, shape: Sequence[int | IntExpr]) -> None:
    """Round the extents of a matrix product up to multiples of ``shape``: rows, columns, terms.

    ::

        C[100, 100] += A[100, 20] * B[20, 100]  ->  C_pad[128, 128] += A_pad[128, 32] * ..

    Operands are zero outside, and the rest of the result is dropped. The copies that padding adds
    are inlined into their neighbours.
    """
    _pad(sch, block, shape)


def _pad(sch: Schedule, block: BlockRV, shape: Sequence[int | IntExpr]) -> None:
    facts = block_facts(sch, block)
    extents = [*facts.spatial_extents, *facts.reduction_extents]
    multiples = [*([1] * (len(extents) - len(shape))), *shape]
    if not any(extent % multiple for extent, multiple in zip(extents, multiples, strict=True)):
        return

    def names(blocks: list[BlockRV]) -> set[str]:
        return {block_facts(sch, other).name for other in blocks}

    before = names(sch.get_producers(block)) | names(sch.get_consumers(block))
    sch.pad_einsum(block, multiples)
    for producer in sch.get_producers(block):
        if block_facts(sch, producer).name not in before:
            sch.compute_inline(sch.get_producers(producer)[0])
    for consumer in sch.get_consumers(block):
        if block_facts(sch, consumer).name not in before:
            sch.compute_inline(consumer)


@instruction
def load_fragments(
    sch: Schedule, calls: BlockRV, operand: int, loop: LoopRV, scope: str, shape: list[int]
) -> list[BlockRV]:
    """Copy what ``calls`` reads below ``loop`` to fragments; return the block of loads, and of one.

    ::

        for k: for i, j: C += A_shared[i, k] * ..
        ->  for k: {for i: block(A_fragment[i, k] = A_shared[i, k]);  for i, j: C += A_fragment ..}

    ``shape`` is that of a fragment: rows and columns as the operand is stored.
    """
    copy = sch.cache_read(calls, operand, scope)
    sch.compute_at(copy, loop, preserve_unit_loops=True)
    rows, columns = sch.get_loops(copy)[-2:]
    outer, row = sch.split(rows, [None, shape[0]])
    beside, column = sch.split(columns, [None, shape[1]])
    sch.reorder(outer, beside, row, column)
    return [sch.blockize(row), copy]


@instruction
def use_intrinsics(
    sch: Schedule,
    blocks: list[BlockRV],
    elements: list[BlockRV],
    loop: LoopRV,
    names: list[str],
    lane_elements: int,
) -> None:
    """Compute fragments with tensor intrinsics.

    ::

        for k: {load A; load B; C += A * B (initially 0)};  store C
        ->  fill(C);  for k: {load(A); load(B); multiply(C, A, B)};  store(C)

    ``blocks`` are those that load A, load B, multiply and store a fragment, ``elements`` the blocks
    of elements inside the two that load and the one that stores. ``loop`` is the outermost
    reduction loop, before which the result is set to 0. ``names`` are the intrinsics that load A,
    load B, multiply, store and fill. With ``lane_elements``, fragments are in registers of the
    warp, in the layout that ldmatrix and mma.sync use.
    """
    *loads, multiply, _ = blocks
    fill = sch.decompose_reduction(multiply, loop)
    if lane_elements:
        *copies, store = elements
        for copy in copies:
            sch.transform_layout(copy, ("write", 0), _lanes(lane_elements, split=True))
        sch.transform_layout(store, ("read", 0), _lanes(2, split=False))
    for block, name in zip([*blocks, fill], names, strict=True):
        sch.tensorize(block, name)


def _lanes(elements: int, *, split: bool) -> Callable[..., Sequence[IntExpr]]:
    """Return the layout of 16 rows over 32 lanes: lane, then the elements that it holds.

    A lane holds ``elements`` neighbours of row r, of row r + 8, and of both ``4 * elements``
    columns further on (PTX ISA, "Matrix Fragments for mma.m16n8k16").
    """
    width = 4 * elements

    def layout(*indices: IntExpr) -> Sequence[IntExpr]:
        *rest, row, column = indices
        if split:
            rest += [row // ROWS, column // (2 * width)]
            row, column = row % ROWS, column % (2 * width)
        lane = 4 * (row % 8) + column % width // elements
        held = 2 * elements * (column // width) + row // 8 * elements + column % elements
        return [*rest, lane, held]

    return layout


# -- The write of a result's fragments, through shared memory -------------------------------------


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


# -- Copies between global and shared memory by the warps of a thread block -----------------------

SHARED = "shared.dyn"
# Rows of a tile start this many bytes after a multiple of 32 elements: the 8 rows that ldmatrix
# reads at a time lie in different banks.
_ROW_OFFSET_BYTES = 16
# Bytes: cp.async copies 4, 8 or 16.
_SMALLEST_ASYNCHRONOUS = 4
# Weight of a depth of 1, beside 1 for others: on an H100, the fastest programs without a pipeline
# took 1.4 to 3.3 times as long as those with one.
_UNPIPELINED = 0.3


@sampling_instruction
def sample_width(sch: Schedule, widest: int, least: int) -> Categorical:
    """Draw how many elements a lane copies at a time: a divisor of ``widest``, ``least`` or more.

    ``8, 2  ->  8``. The weight of a width is its square: wide copies are fewer and coalesced.
    """
    widths = [width for width in range(least, widest + 1) if widest % width == 0]
    return Categorical(tuple(widths), tuple(float(width**2) for width in widths))


def sample_copies(
    sch: Schedule,
    name: str,
    copies: Sequence[BlockRV],
    dtypes: Sequence[str],
    element_bytes: int,
    depths: Sequence[int],
) -> tuple[int, list[IntExpr]]:
    """Choose the depth of the pipeline of copies; draw how many elements each copies at a time.

    ``copies`` are the blocks that copy A, B and the result, which may be left out, with elements of
    ``dtypes``; those of A and B have ``element_bytes`` bytes. Where elements of A or B are not
    contiguous, or rows are not aligned, copies cannot be asynchronous, and the depth is 1.
    """
    typed = zip(copies, dtypes, strict=True)
    widest = [vector_run(sch, copy, vector_widths(dtype)) for copy, dtype in typed]
    together = _SMALLEST_ASYNCHRONOUS // element_bytes
    usable = [depth for depth in depths if depth == 1 or min(widest[:2]) >= together] or [1]
    weights = [_UNPIPELINED if depth == 1 else 1.0 for depth in usable]
    depth = sch.choose(f"depth:{name}", usable, weights)
    least = together if depth > 1 else 1
    bounds = zip("ABC", widest, (least, least, 1), strict=False)
    return depth, [sample_width(sch, w, few, name=f"vector:{name}:{x}") for x, w, few in bounds]


def stage_by_warps(
    sch: Schedule,
    calls: BlockRV,
    operand: int,
    loop: LoopRV,
    width: int | IntExpr,
    element_bytes: int,
) -> BlockRV:
    """Copy what ``calls`` reads below ``loop`` to dynamic shared memory; return the copying block.

    ::

        T = A in another layout;  for k0: for k1: C += T[i, k0 k1]
        ->  for k0: {by all warps: A_shared = A[..];  for k1: C += A_shared[..k1]}

    The block that computed the operand is inlined. Each lane copies ``width`` elements of
    ``element_bytes`` bytes at a time.
    """
    stage = stage_in_shared(sch, calls, operand, loop, scope=SHARED)
    sch.compute_inline(sch.get_producers(stage)[0])
    sch.storage_align(stage, 0, -2, 32, _ROW_OFFSET_BYTES // element_bytes)
    copy_by_warps(sch, stage, calls, 1, width, by_warp=False)
    return stage


@instruction
def copy_by_warps(
    sch: Schedule,
    block: BlockRV,
    calls: BlockRV,
    depth: int,
    width: int | IntExpr,
    *,
    by_warp: bool,
    lanes: int = WARP,
) -> None:
    """Share a copy among the warps that compute ``calls``, ``width`` elements a lane at a time.

    ::

        for x, y: S = A  ->  for xy0: xy1 = threadIdx.y: xy2 = threadIdx.x: vectorized xy3: S = A

    The innermost ``depth`` loops are shared. With ``by_warp``, the lanes of each warp copy its own
    part instead. ``lanes`` is the extent of ``threadIdx.x``, that of a warp unless wgmma needs
    more. (MetaSchedule's RewriteCooperativeFetch.)
    """
    loop = sch.fuse(*sch.get_loops(block)[-depth:])
    warps = threads_around(sch, calls)["threadIdx.y"]
    parts = sch.split(loop, [None, *([] if by_warp else [warps]), lanes, *([width] * (width > 1))])
    if width > 1:
        sch.vectorize(parts.pop())
    for part, axis in zip(reversed(parts[1:]), ("threadIdx.x", "threadIdx.y"), strict=False):
        sch.bind(part, axis)
