"""Fragments: the parts of matrices that a warp holds for its tensor cores, and their intrinsics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedlang.analysis import block_facts
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule

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
