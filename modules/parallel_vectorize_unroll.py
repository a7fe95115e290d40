"""Finishing a CPU program: parallel outside, vectors inside, unrolling drawn."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.module import block_names, module
from schedlang.modules.finish import (
    annotate_unroll,
    decompose_reduction_block,
    parallelize_outer,
    vectorize_inner,
)
from schedlang.schedule import Schedule


@module(at="root")
def parallel_vectorize_unroll(
    sch: Schedule,
    *,
    cores: int = 1,
    jobs_per_core: int = 16,
    max_lanes: int = 64,
    unroll_steps: Sequence[int] = (0, 16, 64, 512),
) -> None:
    """Finish every block of the program.

    ::

        for i: for j: for k: C   ->   parallel i: {init; for k: vectorized j: C}  # unroll drawn

    ``cores`` times ``jobs_per_core`` bounds the parallel iterations, ``max_lanes`` the elements of
    a vectorised loop.
    """
    steps = sch.sample_categorical(unroll_steps, name="unroll")
    blocks = [sch.get_block(name) for name in block_names(sch)]
    for block in blocks:
        parallelize_outer(sch, block, cores * jobs_per_core)
    for block in blocks:
        vectorize_inner(sch, block, max_lanes)
        annotate_unroll(sch, block, steps)
    for block in blocks:
        decompose_reduction_block(sch, block, max_lanes)
