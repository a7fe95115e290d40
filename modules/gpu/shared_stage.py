"""Stage operands in shared memory: the threads of a block load a tile together, in vectors."""

from __future__ import annotations

from schedlang.analysis import buffer_shape, constant_extent
from schedlang.analysis.intrinsics import block_reads
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.tile_binds import THREAD_AXES, threads_around

VECTOR_BYTES = 16
"""The widest load of one thread."""


def stage_in_shared(
    sch: Schedule, block: BlockRV, operand: int, loop: LoopRV, *, scope: str = "shared"
) -> BlockRV:
    """Copy what a block reads below ``loop`` to shared memory; return the block that copies.

    ::

        for k0: for k1: C += A[i, k0 k1]
        ->  for k0: {for x: A_shared[x] = A[..x..];  for k1: C += A_shared[..k1]}

    ``operand`` is the number of the read buffer. The copy runs in one loop;
    ``cooperative_fetching`` shares it among the threads.
    """
    rank = len(buffer_shape(sch, block, "read", operand))
    stage = sch.cache_read(block, operand, scope, [block])
    sch.compute_at(stage, loop, preserve_unit_loops=True)
    sch.fuse(*sch.get_loops(stage)[-rank:])
    return stage


def vector_widths(dtype: str) -> list[int]:
    """Return how many elements of ``dtype`` one thread may load at a time (MetaSchedule's widths).

    They fill at most ``VECTOR_BYTES``; those of 2 bytes are loaded in pairs.
    """
    bits = _bits(dtype)
    most = VECTOR_BYTES * 8 // bits if bits <= 32 else 1  # TVM vectorises no wider elements well
    widths = [width for width in (1, 2, 3, 4, 8, 16) if width <= most]
    return [width for width in widths if width == 1 or bits != 16 or width % 2 == 0]


def _bits(dtype: str) -> int:
    digits = "".join(c for c in dtype.partition("_")[0] if c.isdigit())
    return max(8, int(digits)) if digits else 8


def fetch_width(sch: Schedule, stage: BlockRV, name: str, *, prior: bool = True) -> int | IntExpr:
    """Draw the number of elements that each thread loads at a time; wider is more probable.

    ``name`` is the site. ``prior=False`` makes all widths equally likely.
    """
    widths = vector_widths(block_reads(sch, stage)[0].dtype)
    if len(widths) == 1:
        return widths[0]
    # TVM's code generation gives up on many vectors of 3.
    weights = [0.01 if width == 3 else float(width) for width in widths] if prior else None
    return sch.sample_categorical(widths, weights, name=name)


@instruction
def cooperative_fetching(
    sch: Schedule, block: BlockRV, lanes: int | IntExpr, warp_size: int = 0
) -> None:
    """Share the innermost loop of a copy among the threads around it, ``lanes`` elements each.

    ::

        ty = threadIdx.y: tx = threadIdx.x: for x: copy
        ->  .. for x0: x1 = threadIdx.y: x2 = threadIdx.x: vectorized x3 in lanes: copy

    Where ``lanes`` does not divide the loop, each thread copies one element at a time. With
    ``warp_size``, threads along ``threadIdx.x`` that an intrinsic below brings count as well.
    MetaSchedule's RewriteCooperativeFetch.
    """
    threads = threads_around(sch, block)
    if warp_size > 0:
        threads.setdefault(THREAD_AXES[0], warp_size)
    loop = sch.get_loops(block)[-1]
    extent = constant_extent(sch, loop)
    if extent is None or not threads:
        return
    axes = [axis for axis in reversed(THREAD_AXES) if axis in threads]
    factors: list[int | IntExpr | None] = [None, *(threads[axis] for axis in axes)]
    vector = lanes if lanes > 1 and extent % lanes == 0 else 1
    if vector > 1:
        factors.append(vector)
    loops = sch.split(loop, factors)
    if vector > 1:
        sch.vectorize(loops[-1])
    for axis, part in zip(axes, loops[1:], strict=False):
        sch.bind(part, axis)
