"""``thread_tiling``, the prior of its tiles, and how a GPU program is finished."""

from __future__ import annotations

import math
import random

import pytest

import schedlang as sl
from schedlang.errors import SpaceError
from schedlang.modules.gpu.finish_threads import finish_threads
from schedlang.modules.gpu.thread_tiling import thread_tiling
from schedlang.spaces.space import Space
from schedlang.tvm.codegen.cuda import CUDAGenerator
from tests.language.primitives.programs import elementwise, matmul, row_sum
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled

TILES = {"tile:C:i": (4, 1, 2, 1, 2), "tile:C:j": (2, 1, 4, 1, 2), "tile:C:k": (4, 2, 2)}


def test_a_product(golden: Golden) -> None:
    sch = sampled(matmul(), thread_tiling, finish_threads, decisions=TILES | {"unroll": 16})
    assert_golden(golden, "thread_tiling", sch)


def test_a_product_in_a_pipeline(golden: Golden) -> None:
    """Whatever is drawn for unrolling, TVM unrolls a pipeline itself."""
    sch = sampled(
        matmul(),
        thread_tiling(pipeline_depths=(3,), pipeline_prob=1.0),
        finish_threads,
        decisions=TILES | {"unroll": 16, "unroll_explicit": 0},
    )
    assert_golden(golden, "thread_tiling_pipeline", sch)


def tiles(prior: bool, count: int = 200) -> list[tuple[int, int, int]]:
    """Threads and results of a thread, and bytes of shared memory, of drawn programs."""
    workload = sl.workloads.GMM(512, 512, 512)
    space = Space([thread_tiling(sms=108, prior=prior)])
    found = []
    for seed in range(count):
        drawn = space.sample(workload, seed=seed).trace.decisions
        b, i, j, k = (drawn[f"tile:C:{loop}"] for loop in "bijk")
        threads = math.prod(tile[2] for tile in (b, i, j))
        results = math.prod(tile[level] for tile in (b, i, j) for level in (1, 3, 4))
        rows, columns, depth = (math.prod(tile[1:]) for tile in (i, j, k))
        found.append((threads, results, 4 * depth * (rows + columns)))
    return found


def test_the_prior_draws_programs_that_start() -> None:
    """Whole warps, few results a thread, and operands that fit into shared memory.

    With 40 draws, a share of 97% falls below 85% with a probability of 1e-4.
    """
    drawn = tiles(prior=True, count=40)
    good = [t % 32 == 0 and t <= 1024 and r <= 256 and s <= 49152 for t, r, s in drawn]
    assert sum(good) >= 0.85 * len(good)
    uniform = tiles(prior=False, count=40)
    assert sum(t % 32 == 0 and t <= 1024 and s <= 49152 for t, _, s in uniform) < sum(good)


def test_nothing_is_forbidden() -> None:
    """Every tile that a uniform draw permits has a probability."""
    sch = Space([thread_tiling(sms=108)]).sample(matmul(), seed=0)
    uniform = Space([thread_tiling(prior=False)]).sample(matmul(), seed=0)
    rng = random.Random(0)
    for site, distribution in uniform.trace.distributions.items():
        if site.startswith("tile:"):
            for _ in range(50):
                tile = distribution.sample(rng)
                assert sch.trace.distributions[site].log_prob(tile) > -math.inf


def test_decisions_change_the_prior_of_later_ones() -> None:
    """Replaying with other tiles draws from other distributions."""
    trace = Space([thread_tiling(sms=108)]).sample(matmul(), seed=0).trace
    site = "tile:C:j"
    whole = trace.with_decisions({"tile:C:i": (1, 1, 16, 1, 1)}).replay().trace
    untiled = trace.with_decisions({"tile:C:i": (16, 1, 1, 1, 1)}).replay().trace
    assert whole.distributions[site] != untiled.distributions[site]


def test_pipelines_of_tiny_tiles_can_be_lowered() -> None:
    """A tile of one element stays in its pipeline, and sums of one term have none."""
    gpu = sl.Target("cuda", arch="sm_80")
    space = sl.default_space(gpu)
    single = space.sample(sl.workloads.matmul(5, 7, 1), seed=0)
    assert "pipeline:C" not in single.trace.choices
    tiles = {"tile:C:i": (5, 1, 1, 1, 1), "tile:C:j": (1, 1, 7, 1, 1), "tile:C:k": (11, 1, 1)}
    workload = sl.workloads.matmul(5, 7, 11)
    sch = space.sample(workload, seed=0, choices={"pipeline:C": True}, decisions=tiles)
    assert CUDAGenerator(gpu.tvm_target()).lower(sch.mod).kernels


ACCUMULATING = """
@T.prim_func(s_tir=True)
def main(
    A: T.Buffer((16, 16), "float32"),
    B: T.Buffer((16, 16), "float32"),
    C: T.Buffer((16, 16), "float32"),
):
    for i, j, k in T.grid(16, 16, 16):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""


def test_a_result_that_is_updated() -> None:
    """A cache of it would start without the values that are there."""
    workload = sl.workloads.from_script(ACCUMULATING)
    assert_not_applicable(thread_tiling, workload, "C", "it updates its result")


@pytest.mark.parametrize(
    ("workload", "block", "reason"),
    [(elementwise(), "B", "no single-output reduction"), (row_sum(), "B", "reuses no data")],
)
def test_where_it_does_not_apply(workload: sl.Workload, block: str, reason: str) -> None:
    assert_not_applicable(thread_tiling, workload, block, reason)


def test_bad_options() -> None:
    with pytest.raises(SpaceError, match=r"pipeline_depths=\(2,\)\): a depth is at least 3"):
        sampled(matmul(), thread_tiling(pipeline_depths=(2,)))
    with pytest.raises(SpaceError, match=r"pipeline_prob=0\): give more than 0"):
        sampled(matmul(), thread_tiling(pipeline_depths=(3,), pipeline_prob=0))
