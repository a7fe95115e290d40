"""``decompose_reduction``: where a reduction's initial value is set."""

from __future__ import annotations

from typing import Any

import pytest
from tvm import te

from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import decompose_reduction, parallelize_outer, vectorize_inner
from schedlang.modules.tiling import multi_level_tiling
from schedlang.spaces.module import module
from schedlang.spaces.space import Space
from schedlang.workloads import from_te
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import elementwise, matmul, row_sum
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled
from tests.properties.programs import assert_same_numbers

DRAWN = decompose_reduction(where="drawn")


def test_before_the_outermost_reduction_loop(golden: Golden) -> None:
    assert_golden(golden, "decompose_reduction", sampled(matmul(), decompose_reduction))


def test_at_a_drawn_place_in_vectors(golden: Golden) -> None:
    module = decompose_reduction(where="drawn", max_lanes=8)
    assert_golden(
        golden, "decompose_reduction_drawn", sampled(matmul(), module, decisions={"init:C": 0})
    )


def test_the_places_are_the_loops_outside_the_reduction() -> None:
    distribution = sampled(matmul(), DRAWN).trace.distributions["init:C"]
    assert list(distribution.support()) == [0, 1, 2]
    assert not sampled(matmul(), decompose_reduction).trace.decisions


@module
def run_in_parallel(sch: Schedule, block: BlockRV) -> None:
    """What has to come before: parallel loops outside, vectors inside."""
    parallelize_outer(sch, block, 8)
    vectorize_inner(sch, block, 4)


@pytest.mark.parametrize("workload", [matmul, row_sum])
@pytest.mark.parametrize("where", ["outermost", "drawn"])
def test_the_numbers_stay(workload: Any, where: str) -> None:
    tile = multi_level_tiling(structure="SRS", write_levels=())
    space = Space([tile, run_in_parallel, decompose_reduction(where=where, max_lanes=4)])
    for seed in range(5):
        sch = space.sample(workload(), seed=seed)
        assert_same_numbers(sch.mod, workload(), sch.trace)


def sum_of_deviations() -> Workload:
    """The sums of rows, and then of the differences from them: one reduction reads another."""
    x = te.placeholder((6, 8), name="x")
    k, m = te.reduce_axis((0, 8), name="k"), te.reduce_axis((0, 8), name="m")
    total = te.compute((6,), lambda i: te.sum(x[i, k], axis=k), name="total")
    return from_te([x, te.compute((6,), lambda i: te.sum(x[i, m] - total[i], axis=m), name="out")])


@pytest.mark.parametrize("where", ["outermost", "drawn"])
def test_a_reduction_that_a_loop_of_its_consumer_repeats(where: str) -> None:
    """Its initial value is set at each repetition: before the loop, the sum would grow with it."""

    @module(at="root")
    def compute_in_consumer(sch: Schedule) -> None:
        *_, reduction = sch.get_loops(sch.get_block("out"))
        sch.compute_at(sch.get_block("total"), reduction)

    workload = sum_of_deviations()
    space = Space([compute_in_consumer, decompose_reduction(where=where)])
    for seed in range(3):
        sch = space.sample(workload, seed=seed)
        assert "total_init" in sch.mod.script()
        assert_same_numbers(sch.mod, workload, sch.trace)


def test_where_it_does_not_apply() -> None:
    assert_not_applicable(decompose_reduction, elementwise(), "B", "it sets no initial value")


def test_bad_options() -> None:
    with pytest.raises(
        SpaceError, match=r"where='inner'\): it takes one of \('outermost', 'drawn'\)"
    ):
        sampled(matmul(), decompose_reduction(where="inner"))
