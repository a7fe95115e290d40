"""Stage operands in shared memory and pipeline their loops; finish a GPU program."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import (
    LoopKind,
    block_facts,
    bound_loops,
    buffer_shape,
    constant_extent,
    is_spatial_program,
    loop_kind,
    row_length,
    thread_axis,
)
from schedlang.analysis.intrinsics import block_reads
from schedlang.distributions import Categorical
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction, sampling_instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import every_block, set_init_apart
from schedlang.modules.gpu.auto_bind import THREAD_AXES, bind_unbound_blocks, threads_around
from schedlang.spaces.module import module

# -- Stage operands in shared memory, loaded by the threads of a block ----------------------------

STAGE = "software_pipeline_stage"
ORDER = "software_pipeline_order"
ASYNC_STAGES = "software_pipeline_async_stages"


def pipeline(
    sch: Schedule,
    loop: LoopRV,
    stages: Sequence[int | IntExpr],
    order: Sequence[int] | None = None,
    async_stages: Sequence[int] = (),
) -> None:
    """Run the statements below a loop in stages: stage ``s`` works for ``s`` iterations earlier.

    ::

        for k: {A_s = A[k]; C += A_s}   ->   A_s = A[0]; for k: {A_s' = A[k + 1]; C += A_s}; ..

    The example has stages 0 and 1. ``stages`` and ``order`` have one number for each statement
    below the loop; by default they stay in order. Copies of ``async_stages`` go from global to
    shared memory without registers (``cp.async``, from sm_80 on): code generation uses these
    instructions for programs that have such a stage.
    """
    sch.annotate(loop, STAGE, list(stages))
    sch.annotate(loop, ORDER, list(range(len(stages)) if order is None else order))
    if async_stages:
        sch.annotate(loop, ASYNC_STAGES, list(async_stages))


def overlap_copies(
    sch: Schedule, loops: Sequence[LoopRV], copies: int, depth: int | IntExpr
) -> LoopRV:
    """Fuse ``loops`` and copy asynchronously for the iterations to come; return the fused loop.

    ::

        for k0: {A_s = A[k0]; B_s = B[k0]; C}
        ->  for k0: {A_s = A[k0 + depth - 2], B_s = B[k0 + depth - 2], asynchronously; C}

    Below the loops are ``copies`` copies to shared memory, then one statement that computes.
    ``depth`` counts as MetaSchedule does (its async pipelines have 4 and 5): shared memory holds
    ``depth - 1`` tiles of each operand.
    """
    fused = sch.fuse(*loops)
    pipeline(sch, fused, [*([0] * copies), depth - 2], async_stages=[0])
    return fused


def is_asynchronous(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether the loop is a pipeline with asynchronous copies."""
    return ASYNC_STAGES in sch.get(loop).annotations


VECTOR_BYTES = 16
"""The widest load of one thread."""
_UNALIGNED = 0.01
_LONG_ROW = 64


def stage_in_shared(
    sch: Schedule,
    block: BlockRV,
    operand: int,
    loop: LoopRV,
    *,
    scope: str = "shared",
    strip: int = 0,
) -> BlockRV:
    """Copy what a block reads below ``loop`` to shared memory; return the block that copies.

    ::

        for k0: for k1: C += A[i, k0 k1]
        ->  for k0: {for x: A_shared[x] = A[..x..];  for k1: C += A_shared[..k1]}

    ``operand`` is the number of the read buffer. The copy runs in one loop;
    ``cooperative_fetching`` shares it among the threads. With ``strip``, a multiple of
    which the rows are, they are copied in strips of that width unless the number of strips is a
    power of two: TVM does not simplify indices such as x % 192 % 64.
    """
    rank = len(buffer_shape(sch, block, "read", operand))
    stage = sch.cache_read(block, operand, scope, [block])
    sch.compute_at(stage, loop, preserve_unit_loops=True)
    loops = sch.get_loops(stage)[-rank:]
    count = (constant_extent(sch, loops[-1]) or 0) // strip if strip else 0
    if count & (count - 1):
        strips, within = sch.split(loops.pop(), [None, strip])
        sch.reorder(strips, loops[-1], within)
        loops[-1:] = strips, loops[-1], within
    sch.fuse(*loops)
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


@sampling_instruction
def sample_fetch_width(sch: Schedule, stage: BlockRV, uniform: bool = False) -> Categorical:
    """Draw how many elements of a staged operand each thread loads at a time.

    ``A: float32, rows of 6  ->  v0 = 2``

    Wide loads are more probable, and those that cross the rows of the tile or of the operand hardly
    at all: they are not aligned. ``uniform`` makes all widths equally likely.
    """
    widths = vector_widths(block_reads(sch, stage)[0].dtype)
    if uniform:
        return Categorical(tuple(widths))
    whole = buffer_shape(sch, stage, "read", 0)[-1]
    row = row_length(sch, stage, sch.get_loops(stage)[-1], _LONG_ROW)
    # TVM's code generation gives up on many vectors of 3.
    good = [whole % width == 0 and row % width == 0 and width != 3 for width in widths]
    weights = zip(widths, good, strict=True)
    return Categorical(tuple(widths), tuple(w if fits else _UNALIGNED for w, fits in weights))


def fetch_width(sch: Schedule, stage: BlockRV, name: str, *, prior: bool = True) -> int | IntExpr:
    """Draw by ``sample_fetch_width`` where there is a choice; ``name`` is the site."""
    widths = vector_widths(block_reads(sch, stage)[0].dtype)
    if len(widths) == 1:
        return widths[0]
    drawn: IntExpr = sample_fetch_width(sch, stage, not prior, name=name)
    return drawn


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


@instruction
def finish_for_threads(
    sch: Schedule,
    max_step: int | IntExpr,
    explicit: int | IntExpr,
    max_threadblocks: int,
    max_threads_per_block: int,
) -> None:
    """Bind every unbound block, unroll reductions, and set their initial values before them.

    ::

        ij = blockIdx.x: {for k: {init if k == 0; C}};  for i: for j: D
        ->  ij = blockIdx.x: {init; for k: C}  # unrolled;  ij0 = blockIdx.x: ij1 = threadIdx.x: D

    Loops of blocks that reduce are unrolled while their bodies have at most ``max_step`` steps (0
    disables it): by TVM if ``explicit``, else by a pragma in the generated code. TVM unrolls what
    belongs to an asynchronous pipeline in any case, whose waits take constants. Reductions across
    threads keep their initial values. These are MetaSchedule's RewriteUnboundBlock,
    RewriteParallelVectorizeUnroll and RewriteReductionBlock.
    """
    bind_unbound_blocks(sch, max_threadblocks, max_threads_per_block)
    blocks = every_block(sch)
    for block in blocks:
        loops = sch.get_loops(block)
        if max_step > 0 and loops and block_facts(sch, block).reduction_extents:
            sch.annotate(loops[0], "pragma_auto_unroll_max_step", max_step)
            waits = any(is_asynchronous(sch, loop) for loop in loops)
            sch.annotate(loops[0], "pragma_unroll_explicit", 1 if waits else explicit)
    for block in blocks:
        if not _reduces_across_threads(sch, block):
            set_init_apart(sch, block)


@module(at="root", stage="finish")
def finish_threads(
    sch: Schedule,
    *,
    max_threadblocks: int = 256,
    max_threads_per_block: int = 1024,
    unroll_steps: Sequence[int] = (0, 16, 32, 64, 128, 256, 512, 1024),
    implicit: bool = True,
) -> None:
    """Finish every block of a GPU program; the depth and the sort of unrolling are drawn.

    ::

        ij = blockIdx.x: {for k: {init if k == 0; C}}   ->   ij = blockIdx.x: {init; for k: C}

    The numbers of steps are MetaSchedule's. With ``implicit``, unrolling may be left to the CUDA
    compiler. Programs without reductions are not unrolled.
    """
    steps: int | IntExpr = 0
    explicit: int | IntExpr = 1
    if not is_spatial_program(sch):
        steps = sch.sample_categorical(unroll_steps, name="unroll")
        if implicit:
            explicit = sch.sample_categorical((0, 1), name="unroll_explicit")
    finish_for_threads(sch, steps, explicit, max_threadblocks, max_threads_per_block)


def _reduces_across_threads(sch: Schedule, block: BlockRV) -> bool:
    return any(
        thread_axis(sch, loop)
        and loop_kind(sch, loop) != LoopKind.SPATIAL
        and bound_loops(sch, block, [loop])
        for loop in sch.get_loops(block)
    )
