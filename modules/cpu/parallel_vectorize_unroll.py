"""Finish a CPU program: parallel outer loops, vectorised inner loops, drawn unrolling."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.expressions import IntExpr
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.metaschedule_finish import finish_like_metaschedule
from schedlang.modules.shared.checks import check_prob
from schedlang.modules.shared.finish import (
    annotate_unroll,
    decompose_reduction_block,
    parallelize_outer,
    vectorize_inner,
)
from schedlang.spaces.module import block_names, module

_METASCHEDULE_LANES = 64


@instruction
def finish_blocks(
    sch: Schedule, max_jobs: int | IntExpr, max_lanes: int, max_step: int | IntExpr
) -> None:
    """Finish every block that the program has at this point.

    ::

        for i: for j: for k: C   ->   parallel i: {init; for k: vectorized j: C}  # unrolled

    It is one instruction, because the blocks depend on earlier decisions: a producer that is
    inlined at one compute location is a block of its own at another.
    """
    blocks = [sch.get_block(name) for name in block_names(sch)]
    for block in blocks:
        parallelize_outer(sch, block, max_jobs)
    for block in blocks:
        vectorize_inner(sch, block, max_lanes)
        annotate_unroll(sch, block, max_step)
    for block in blocks:
        decompose_reduction_block(sch, block, max_lanes)


@module(at="root", stage="finish")
def parallel_vectorize_unroll(
    sch: Schedule,
    *,
    cores: int = 1,
    jobs_per_core: int = 16,
    max_lanes: int = 64,
    unroll_steps: Sequence[int] = (0, 16, 64, 512),
    prob: float = 1.0,
) -> None:
    """Finish every block of the program; the unrolling depth is drawn.

    ::

        for i: for j: for k: C   ->   parallel i: {init; for k: vectorized j: C}  # unroll drawn

    ``cores`` times ``jobs_per_core`` bounds the parallel iterations, ``max_lanes`` the elements of
    a vectorised loop. With ``prob`` below 1, how to finish is a choice: with this probability by
    ``finish_blocks``, else by ``finish_like_metaschedule`` with 64 lanes, which fuses inner loops
    first.
    """
    check_prob("parallel_vectorize_unroll", prob)
    steps = sch.sample_categorical(unroll_steps, name="unroll")
    ways = ("along_stores", "metaschedule")
    way = ways[0] if prob == 1 else sch.choose("finish", ways, (prob, 1 - prob))
    if way == "along_stores":
        finish_blocks(sch, cores * jobs_per_core, max_lanes, steps)
    else:
        finish_like_metaschedule(sch, cores * jobs_per_core, _METASCHEDULE_LANES, steps)
