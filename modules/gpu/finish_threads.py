"""Finish a GPU program: bind what is unbound, unroll, and set initial values apart."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import (
    LoopKind,
    block_facts,
    bound_loops,
    is_spatial_program,
    loop_kind,
    thread_axis,
)
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.auto_bind import bind_unbound_blocks
from schedlang.modules.gpu.pipeline import is_asynchronous
from schedlang.modules.shared.finish import every_block, set_init_apart
from schedlang.spaces.module import module


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
