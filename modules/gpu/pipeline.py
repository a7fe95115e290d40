"""Software pipelines: copies for later iterations of a loop overlap with the work of this one."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.expressions import IntExpr
from schedlang.instructions.handles import LoopRV
from schedlang.language.schedule import Schedule

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
