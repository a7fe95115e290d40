"""Copies between global and shared memory by the warps of a thread block."""

from __future__ import annotations

from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.fragments import WARP
from schedlang.modules.gpu.shared_stage import stage_in_shared
from schedlang.modules.gpu.tile_binds import threads_around

SHARED = "shared.dyn"
# Rows of a tile start this many bytes after a multiple of 32 elements: the 8 rows that ldmatrix
# reads at a time lie in different banks.
_ROW_OFFSET_BYTES = 16
SMALLEST_ASYNCHRONOUS_COPY = 4
"""Bytes: cp.async copies 4, 8 or 16."""


def stage_by_warps(
    sch: Schedule, calls: BlockRV, operand: int, loop: LoopRV, width: int, element_bytes: int
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
    sch: Schedule, block: BlockRV, calls: BlockRV, depth: int, width: int, *, by_warp: bool
) -> None:
    """Share a copy among the warps that compute ``calls``, ``width`` elements a lane at a time.

    ::

        for x, y: S = A  ->  for xy0: xy1 = threadIdx.y: xy2 = threadIdx.x: vectorized xy3: S = A

    The innermost ``depth`` loops are shared. With ``by_warp``, the lanes of each warp copy its own
    part instead. (MetaSchedule's RewriteCooperativeFetch.)
    """
    loop = sch.fuse(*sch.get_loops(block)[-depth:])
    warps = threads_around(sch, calls)["threadIdx.y"]
    parts = sch.split(loop, [None, *([] if by_warp else [warps]), WARP, *([width] * (width > 1))])
    if width > 1:
        sch.vectorize(parts.pop())
    for part, axis in zip(reversed(parts[1:]), ("threadIdx.x", "threadIdx.y"), strict=False):
        sch.bind(part, axis)
