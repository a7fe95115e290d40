"""Copies between global and shared memory by the warps of a thread block."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis.layouts import vector_run
from schedlang.distributions import Categorical
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction, sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.auto_bind import threads_around
from schedlang.modules.gpu.fragments import WARP
from schedlang.modules.gpu.pipeline import stage_in_shared, vector_widths

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
