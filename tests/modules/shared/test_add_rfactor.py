"""``add_rfactor``: MetaSchedule's sketches, both at once, and the same numbers."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from schedlang.errors import SpaceError
from schedlang.modules.cpu.finish import parallel_vectorize_unroll
from schedlang.modules.reductions import add_rfactor
from schedlang.spaces.sketch import Sketch
from schedlang.spaces.space import Space
from schedlang.tvm.program import block_names as block_names_of
from schedlang.tvm.schedule.intrinsics import register_all
from schedlang.workloads import NRM, SFM, from_te, matmul
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import elementwise, row_sum
from tests.modules.module_runs import (
    Golden,
    assert_golden,
    assert_not_applicable,
    same_up_to_buffer_order,
    sampled,
)
from tests.properties.programs import assert_same_numbers

FINISH = parallel_vectorize_unroll(cores=2)


@functools.cache
def norm() -> Workload:
    return NRM(16, 24)


@functools.cache
def short_matmul() -> Workload:
    """Two results of 256 products each."""
    return matmul(2, 4, 256)


@functools.cache
def argmax() -> Workload:
    """The largest element of each row and where it is: a reduction of pairs."""
    from tvm import te, tirx

    a = te.placeholder((8, 32), "float32", "A")
    larger = te.comm_reducer(
        lambda x, y: (
            tirx.Select(x[1] >= y[1], x[0], y[0]),
            tirx.Select(x[1] >= y[1], x[1], y[1]),
        ),
        lambda i, v: (tirx.const(-1, i), tirx.min_value(v)),
        name="argmax",
    )
    k = te.reduce_axis((0, 32), "k")
    index, value = te.compute((8,), lambda i: larger((k, a[i, k]), axis=k), name="top")
    return from_te([a, index, value])


WORKLOADS = {
    "row_sum": row_sum,
    "norm": norm,
    "softmax": lambda: SFM(6, 32),
    "short_matmul": short_matmul,
    "argmax": argmax,
}


@pytest.mark.parametrize(
    ("way", "factors"), [("outer", (4, 4)), ("inner", (4, 4)), ("both", (2, 2, 4))]
)
def test_the_program_before_and_after(golden: Golden, way: str, factors: tuple[int, ...]) -> None:
    sch = sampled(
        row_sum(),
        add_rfactor(cores=2),
        choices={"rfactor:B": way},
        decisions={"rfactor_tile:B": factors},
    )
    assert_golden(golden, f"add_rfactor_{way}", sch)


def test_several_reduction_loops_are_fused(golden: Golden) -> None:
    sch = sampled(
        norm(),
        add_rfactor(cores=2),
        choices={"rfactor:squares": "both"},
        decisions={"rfactor_tile:squares": (8, 6, 8)},
    )
    assert_golden(golden, "add_rfactor_norm", sch)


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKLOADS)
def test_every_way_computes_the_same(name: str) -> None:
    workload = WORKLOADS[name]()
    sketches = Space([add_rfactor(cores=2, vector_lanes=4), FINISH]).sketches(workload)
    assert len(sketches) >= 4
    for sketch in sketches:
        for seed in range(3):
            sch = sketch.sample(seed)
            assert_same_numbers(sch.mod, workload, sch.trace)


@pytest.mark.parametrize("name", ["row_sum", "norm", "softmax", "short_matmul"])
def test_metaschedules_programs_are_contained(name: str) -> None:
    register_all()  # the context imports them all, which takes 20 s without this
    workload = WORKLOADS[name]()
    generator = ms.space_generator.PostOrderApply(
        sch_rules=[ms.schedule_rule.AddRFactor(16, 64)], postprocs=[], mutator_probs={}
    )
    context = ms.TuneContext(
        mod=workload.mod,
        target=Target({"kind": "llvm", "num-cores": 2}),
        space_generator=generator,
    )
    theirs = context.generate_design_space()
    ours = Space([add_rfactor(cores=2)]).sketches(workload)
    assert len(theirs) > 1
    for sch in theirs:
        _drop_notes(sch)
        trace = sch.trace
        tiles = [
            tuple(int(v) for v in trace.decisions[i])
            for i in trace.insts
            if i.kind.name == "SamplePerfectTile"
        ]
        found = [s for s in ours if _same_program(s, tiles, sch.mod)]
        assert found, sch.mod


def _drop_notes(sch: Any) -> None:
    """Take away what the rule leaves for another of MetaSchedule's rules."""
    key = "meta_schedule.random_compute_producer"
    for name in block_names_of(sch.mod):
        block = sch.get_sblock(name)
        if key in sch.get(block).annotations:
            sch.unannotate(block, key)


def _same_program(sketch: Sketch, tiles: list[tuple[int, ...]], mod: Any) -> bool:
    trace = sketch.trace
    if len(trace.decisions) != len(tiles) or any(way == "both" for _, way in sketch.choices):
        return False
    # It visits the last block first, we the first; so its buffers stand in another order.
    decisions = dict(zip(trace.decisions, reversed(tiles), strict=True))
    return same_up_to_buffer_order(trace.with_decisions(decisions).replay().mod, mod)


def test_with_lanes_the_prior_prefers_whole_vectors() -> None:
    """24 has one factor of whole vectors of 8 (8 and 24 weigh 16, the six others 1)."""
    sch = sampled(
        norm(), add_rfactor(vector_lanes=8, ways=["inner"]), choices={"rfactor:squares": "inner"}
    )
    tile = sch.trace.distributions["rfactor_tile:squares"]
    assert tile.log_prob((48, 8)) > tile.log_prob((64, 6)) + 2


def test_both_ways_at_once_are_offered_where_the_cores_have_too_little() -> None:
    def ways(cores: int) -> list[str]:
        return [way for s in Space([add_rfactor(cores=cores)]).sketches(row_sum())
                for _, way in s.choices]  # fmt: skip

    assert ways(1) == ["none", "outer", "inner"]
    assert ways(2) == ["none", "outer", "inner", "both"]
    only = Space([add_rfactor(ways=["both"])]).sketches(row_sum())
    assert [len(s.trace) for s in only] == [0]


@pytest.mark.parametrize(
    ("workload", "block", "reason"),
    [
        (elementwise, "B", "it is no reduction"),
        (lambda: matmul(2, 4, 4), "C", "its spatial loops are parallel enough"),
        (lambda: matmul(64, 64, 8192), "C", "its spatial loops are parallel enough"),
        (lambda: NRM(1, 1), "squares", "it reduces one element"),
    ],
)
def test_where_it_does_not_apply(workload, block: str, reason: str) -> None:
    assert_not_applicable(add_rfactor, workload(), block, reason)


def test_a_tiled_reduction_is_left_alone() -> None:
    from schedlang.errors import NotApplicable
    from schedlang.language.schedule import Schedule

    sch = Schedule(row_sum())
    block = sch.get_block("B")
    sch.split(sch.get_loops(block)[1], [4, 4])
    with pytest.raises(NotApplicable, match="scheduled already"):
        add_rfactor(sch, block)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cores": 0}, r"add_rfactor\(cores=0\): it takes an integer of at least 1"),
        ({"max_innermost_factor": 0}, r"max_innermost_factor=0\): it takes an integer"),
        ({"ways": ["none", "inside"]}, r"ways=\['none', 'inside'\]\): it takes .* not 'inside'"),
        ({"ways": "inner"}, r"ways='inner'\): it takes a list of some of"),
        ({"ways": []}, r"ways=\[\]\): it takes a list of some of"),
    ],
)
def test_bad_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        sampled(row_sum(), add_rfactor(**options))
