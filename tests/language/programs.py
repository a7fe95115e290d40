"""Schedules whose traces hold every kind of argument that a trace can store."""

from __future__ import annotations

import functools

from schedlang.distributions import Categorical
from schedlang.language.schedule import Schedule
from schedlang.modules import (
    auto_inline,
    multi_level_tiling,
    parallel_vectorize_unroll,
    random_compute_location,
)
from schedlang.spaces.space import Space
from schedlang.workloads import CBR, matmul
from schedlang.workloads.workload import Workload

SPACE = Space(
    [
        auto_inline,
        multi_level_tiling(vector_lanes=16),
        random_compute_location,
        parallel_vectorize_unroll(cores=2),
    ]
)


@functools.cache
def product(n: int = 16) -> Workload:
    """C (n, n) = A @ B."""
    return matmul(n, n, n)


@functools.cache
def convolution() -> Workload:
    """Padding, a convolution and four element-wise steps, all small."""
    return CBR(6, 6, 2, 8, 3, 1, 1)


def everything(seed: int) -> Schedule:
    """The product, scheduled by the core's instructions with every kind of argument and draw."""
    sch = Schedule(product(), seed=seed)
    block = sch.get_block("C")
    copy = sch.cache_read(block, 0, "global", consumer_blocks=[block])
    i, j, k = sch.get_loops(block)
    width = sch.sample_categorical([2, 4, 8], probs=[0.5, 0.25, 0.25], name="width")
    i0, i1 = sch.split(i, [None, width * 2])
    j0, j1 = sch.split(j, sch.sample_perfect_tile(j, 2, 8, weights={-1: {4: 3.0}}, name="tile j"))
    k0, k1, k2 = sch.split(k, sch.sample_partitioned_tile(k, 3, 1, 2))
    sch.reorder(*sch.sample_loop_order([i0, j0], name="order"), k0, k1, i1, k2, j1)
    sch.transform_layout(copy, ("write", 0), lambda n, m: (n // width, m, n % width))
    sch.annotate(block, "note", {"list": [1, 2.5, "text", True], "drawn": width, "low": -0.5})
    items = sch.sample_subset([1, 2, 3], name="items")
    sch.annotate(i0, "sum", items[0] + items[1] * (7 - items[2]) % 5 // 2)
    sch.annotate(j0, "step", sch.sample_int_range(0, 10, 3))
    sch.annotate(j0, "drawn", sch.sample(Categorical((1, 2, 3), (0.2, 0.3, 0.5)), name="any"))
    if sch.choose("unroll", ("never", 16, True, 0.5), probs=[1, 1, 1, 0]) != "never":
        sch.unroll(k2)
    with sch.within("finish"):
        sch.vectorize(j1)
        sch.decompose_reduction(block, k0)
        sch.compute_at(copy, sch.sample_compute_location(copy, name="where"))
    return sch


@functools.cache
def recorded() -> tuple[Schedule, ...]:
    """A few schedules to read traces of; not to be changed."""
    samples = (SPACE.sample(convolution(), seed=seed) for seed in range(3))
    return (everything(0), everything(3), *samples)
