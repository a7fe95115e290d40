"""``random_compute_location``: MetaSchedule's decisions, and whole chains in one loop."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from schedlang.errors import InvalidTrace
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.finish import parallel_vectorize_unroll
from schedlang.modules.inlining import auto_inline, random_compute_location
from schedlang.modules.reductions import add_rfactor
from schedlang.modules.tiling import multi_level_tiling
from schedlang.spaces.space import Space
from schedlang.tvm.program import block_names, structurally_equal
from schedlang.tvm.schedule.intrinsics import register_all
from schedlang.workloads import NRM, SFM
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import chain, matmul, row_sum, siblings
from tests.modules.module_runs import Golden, assert_golden, same_up_to_buffer_order, sampled
from tests.properties.programs import SMALL, assert_same_numbers, small

FINISH = parallel_vectorize_unroll(cores=2)


@functools.cache
def softmax() -> Workload:
    return SFM(6, 32)


@functools.cache
def norms() -> Workload:
    """Two norms, so that there is a loop over them to move into."""
    return NRM(4, 8, batch=2)


def test_a_producer(golden: Golden) -> None:
    sch = sampled(chain(), random_compute_location, decisions={"location:B": 0})
    assert_golden(golden, "random_compute_location", sch)


def test_a_reduction_and_the_part_that_was_split_off(golden: Golden) -> None:
    sch = sampled(
        norms(),
        add_rfactor,
        random_compute_location,
        choices={"rfactor:squares": "inner"},
        decisions={
            "rfactor_tile:squares": (4, 8),
            "location:squares": 0,
            "location:squares_rf": 0,
        },
    )
    assert_golden(golden, "random_compute_location_rfactor", sch)


def test_a_softmax_fits_one_loop(golden: Golden) -> None:
    sch = sampled(
        softmax(),
        random_compute_location,
        decisions={"location:row_sum": 0, "location:exponent": 0, "location:row_max": 0},
    )
    assert_golden(golden, "random_compute_location_chain", sch)
    loops = [line for line in str(sch.mod).splitlines() if line.startswith("        for ")]
    assert len(loops) == 1


def test_reductions_may_stay_where_they_are() -> None:
    sites = sampled(softmax(), random_compute_location(reductions=False)).trace.decisions
    assert list(sites) == ["location:exponent"]
    sites = sampled(softmax(), random_compute_location).trace.decisions
    assert list(sites) == ["location:row_sum", "location:exponent", "location:row_max"]


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_the_numbers_stay(name: str) -> None:
    workload = small(name)
    inline = auto_inline(require_ordered=True)
    space = Space([inline, add_rfactor, multi_level_tiling, random_compute_location, FINISH])
    different = {}
    for seed in range(15):
        sch = space.sample(workload, seed=seed)
        different[str(sch.trace)] = sch
        again = sch.trace.replay()
        assert structurally_equal(again.mod, sch.mod)
    for sch in different.values():
        assert_same_numbers(sch.mod, workload, sch.trace)


@pytest.mark.parametrize("rfactor", [False, True])
@pytest.mark.parametrize("workload", [softmax, norms, row_sum], ids=lambda w: w.__name__)
def test_metaschedules_programs_are_contained(workload: Any, rfactor: bool) -> None:
    """For each of its sketches, for a dozen of its draws, one of our traces gives its program."""
    register_all()  # the context imports them all, which takes 20 s without this
    rules = [ms.schedule_rule.AddRFactor(16, 64)] if rfactor else []
    rules.append(ms.schedule_rule.RandomComputeLocation())
    mod = workload().mod
    theirs: dict[str, Any] = {}
    for seed in range(12):
        context = ms.TuneContext(
            mod=mod,
            target=Target({"kind": "llvm", "num-cores": 2}),
            rand_state=seed + 1,
            space_generator=ms.space_generator.PostOrderApply(
                sch_rules=rules, postprocs=[], mutator_probs={}
            ),
        )
        for sch in context.generate_design_space():
            _drop_notes(sch)
            theirs[str(sch.mod)] = sch
    modules = [add_rfactor(ways=["none", "outer", "inner"])] if rfactor else []
    sketches = Space([*modules, random_compute_location]).sketches(workload())
    for sch in theirs.values():
        assert any(_reaches(sketch.trace, sch) for sketch in sketches), sch.trace


def _drop_notes(sch: Any) -> None:
    key = "meta_schedule.random_compute_producer"
    for name in block_names(sch.mod):
        block = sch.get_sblock(name)
        if key in sch.get(block).annotations:
            sch.unannotate(block, key)


def _reaches(trace: Any, theirs: Any) -> bool:
    """Whether their decisions give their program from one of our traces."""
    tiles = _drawn(theirs, "SamplePerfectTile", lambda d: tuple(int(v) for v in d))
    locations = _drawn(theirs, "SampleComputeLocation", int)
    ours = [site for site in trace.decisions if site.startswith("rfactor_tile")]
    places = [site for site in trace.decisions if site.startswith("location")]
    if len(ours) != len(tiles):
        return False
    # It splits the last block first, we the first; both place the last block first.
    decisions = dict(zip(ours, reversed(tiles), strict=True))
    # The split-off part of an output has no place in its traces.
    decisions |= dict(itertools.zip_longest(places, locations, fillvalue=-1))
    try:
        mine = trace.with_decisions(decisions).replay()
    except InvalidTrace:
        return False
    return same_up_to_buffer_order(mine.mod, theirs.mod)


def _drawn(theirs: Any, kind: str, value: Any) -> list[Any]:
    decisions = theirs.trace.decisions
    return [value(decisions[i]) for i in theirs.trace.insts if i.kind.name == kind]


@pytest.mark.parametrize("workload", [matmul, siblings, row_sum])
def test_outputs_have_a_fixed_place(workload: Any) -> None:
    assert not sampled(workload(), random_compute_location).trace.decisions


def test_what_is_tiled_stays() -> None:
    sch = Schedule(chain(), seed=0)
    sch.split(sch.get_loops("B")[0], [4, 4])
    random_compute_location(sch)
    assert not sch.trace.decisions


def test_what_has_company_in_its_loops_stays() -> None:
    sch = Schedule(softmax(), seed=0)
    sch.compute_at("row_max", sch.get_loops("exponent")[0])
    random_compute_location(sch)
    assert list(sch.trace.decisions) == ["location:row_sum"]


def test_the_split_off_part_of_an_output_moves() -> None:
    sch = sampled(row_sum(), add_rfactor(ways=["inner"]), random_compute_location)
    assert "location:B_rf" in sch.trace.decisions
