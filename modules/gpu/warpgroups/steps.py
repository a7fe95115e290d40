"""Steps of a product of warpgroups: stage operands, multiply, and write the result."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.pipeline import stage_in_shared
from schedlang.modules.gpu.warp_copies import copy_by_warps
from schedlang.modules.gpu.warpgroups.intrinsics import Tile
from schedlang.modules.gpu.warpgroups.operand import (
    ATOM,
    CHUNK,
    SHARED,
    WARPGROUP,
    operand_layout,
    result_layout,
)

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

    ``Tile`` has the meaning of the other arguments.
    """
    rows, columns, terms = shape
    tile = Tile(int(rows), int(columns), int(terms), dtype, transposed, swizzled)
    fill = sch.decompose_reduction(calls, loop)
    sch.tensorize(calls, tile.product)
    sch.tensorize(fill, tile.fill)
