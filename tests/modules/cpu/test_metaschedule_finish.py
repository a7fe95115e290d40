"""``finish_like_metaschedule``: what MetaSchedule's post-processors do, and the same numbers."""

from __future__ import annotations

import functools

import pytest
from tvm.ir import load_json, save_json
from tvm.s_tir import Schedule as TVMSchedule
from tvm.s_tir.meta_schedule import postproc

import schedlang as sl
from schedlang.errors import SpaceError
from schedlang.modules.cpu.finish import finish_like_metaschedule
from schedlang.modules.inlining import random_compute_location
from schedlang.modules.tiling import multi_level_tiling
from schedlang.tvm.program import structurally_equal
from schedlang.workloads import from_script, matmul
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import chain, row_sum
from tests.modules.module_runs import Golden, assert_golden
from tests.properties.programs import SMALL, assert_same_numbers, small

UNFINISHED = sl.Space([multi_level_tiling(structure=("SSRSRS", "SSRS")), random_compute_location])
STEPS = (0, 16, 512)


@functools.cache
def transposed() -> Workload:
    """B = A.T, a row of 48: what is stored moves contiguously, what is read does not."""
    return from_script(
        """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((48, 8), 'float32'), B: T.Buffer((8, 48), 'float32')):
    for i, j in T.grid(8, 48):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vj, vi]
""",
        "transposed",
    )


def finished(workload: Workload, max_jobs: int, max_lanes: int, max_step: int) -> sl.Schedule:
    sch = sl.Schedule(workload)
    finish_like_metaschedule(sch, max_jobs, max_lanes, max_step)
    return sch


def test_a_tiled_product(golden: Golden) -> None:
    """Parallel outside; lanes of one loop only, as A moves by rows; the initial value apart."""
    sch = sl.Schedule(matmul(16, 16, 16))
    i, j, k = sch.get_loops("C")
    rows, columns = sch.split(i, [None, 4]), sch.split(j, [None, 4])
    sch.reorder(rows[0], columns[0], k, rows[1], columns[1])
    cache = sch.cache_write("C", 0, "global")
    sch.reverse_compute_at(cache, columns[0])
    finish_like_metaschedule(sch, 8, 64, 16)
    assert_golden(golden, "metaschedule_finish_product", sch)
    assert_same_numbers(sch.mod, sch.workload, sch.trace)


def test_blocks_whose_loops_all_fuse_are_split_by_the_lanes(golden: Golden) -> None:
    sch = finished(chain(), 32, 64, 16)
    assert_golden(golden, "metaschedule_finish_chain", sch)
    assert_same_numbers(sch.mod, sch.workload, sch.trace)


def test_a_reduction_over_the_innermost_loop(golden: Golden) -> None:
    sch = finished(row_sum(), 32, 64, 16)
    assert_golden(golden, "metaschedule_finish_row_sum", sch)
    assert_same_numbers(sch.mod, sch.workload, sch.trace)


def test_only_the_innermost_loop_may_move_by_more_than_an_element(golden: Golden) -> None:
    sch = finished(transposed(), 4, 64, 16)
    assert_golden(golden, "metaschedule_finish_transposed", sch)
    assert_same_numbers(sch.mod, sch.workload, sch.trace)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_programs_are_those_of_metaschedules_post_processors(name: str) -> None:
    """Random programs of each operator, 24 of each, all compared by structure."""
    for seed in range(24):
        sch = UNFINISHED.sample(small(name), seed=seed)
        bounds = ((1, 8, 32)[seed % 3], (4, 16, 64)[seed // 3 % 3], STEPS[seed // 9])
        # A copy: two schedules over parts of one program corrupt each other's memory (TVM 0.27).
        peer = TVMSchedule(load_json(save_json(sch.mod)))
        assert post_processed(peer, *bounds)
        finish_like_metaschedule(sch, *bounds)
        assert structurally_equal(sch.mod, peer.mod), bounds


def post_processed(sch: TVMSchedule, max_jobs: int, max_lanes: int, max_step: int) -> bool:
    """Finish with MetaSchedule's own; whether it accepts the program."""
    root = sch.get_sblock("root")
    sch.annotate(root, "meta_schedule.parallel", max_jobs)
    sch.annotate(root, "meta_schedule.vectorize", max_lanes)
    sch.annotate(root, "meta_schedule.unroll_explicit", max_step)
    steps = (postproc.RewriteParallelVectorizeUnroll(), postproc.RewriteReductionBlock())
    return all(step.apply(sch) for step in steps)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_numbers_stay(name: str) -> None:
    for seed in range(3):
        sch = UNFINISHED.sample(small(name), seed=seed)
        finish_like_metaschedule(sch, 8, 16, STEPS[seed])
        assert_same_numbers(sch.mod, sch.workload, sch.trace)


def test_drawn_steps_are_taken() -> None:
    sch = sl.Schedule(row_sum())
    steps = sch.sample_categorical([16], name="unroll")
    finish_like_metaschedule(sch, 32, 64, steps)
    assert structurally_equal(sch.mod, finished(row_sum(), 32, 64, 16).mod)
    assert structurally_equal(sch.trace.replay().mod, sch.mod)


@pytest.mark.parametrize(("jobs", "lanes", "wrong"), [(0, 64, "max_jobs"), (32, 0, "max_lanes")])
def test_bounds_are_at_least_one(jobs: int, lanes: int, wrong: str) -> None:
    with pytest.raises(SpaceError, match=rf"\({wrong}=0\): it takes an integer of at least 1"):
        finished(chain(), jobs, lanes, 16)
