"""``cross_thread_reduction`` and ``auto_bind``: what they leave, and MetaSchedule's programs.

Nothing runs here: the programs are for GPUs. That TVM generates CUDA source for them is checked.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
from tvm.s_tir import meta_schedule as ms
from tvm.target import Target

from schedlang.errors import SpaceError
from schedlang.language.schedule import Schedule
from schedlang.modules.gpu.auto_bind import auto_bind, bind_unbound_blocks
from schedlang.modules.gpu.cross_thread_reduction import cross_thread_reduction
from schedlang.modules.inlining import auto_inline
from schedlang.spaces.space import Space
from schedlang.tvm.program import structurally_equal
from schedlang.tvm.schedule.intrinsics import register_all
from schedlang.workloads import NRM, SFM
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import chain, elementwise, matmul, row_sum
from tests.modules.gpu.cuda_source import cuda_source
from tests.modules.module_runs import Golden, assert_golden, sampled
from tests.modules.odd_programs import odd

GPU_INLINE = auto_inline(into_producer=True, inline_branches=True, inline_expensive=True)
CUDA = {"kind": "cuda", "arch": "sm_80", "max_threads_per_block": 1024, "thread_warp_size": 32}
CUDA["max_shared_memory_per_block"] = 49152
EXTENTS = [4, 8, 16, 32, 64, 128, 256, 512]


@functools.cache
def softmax() -> Workload:
    return SFM(6, 32)


@functools.cache
def norm() -> Workload:
    return NRM(16, 24, batch=2)


def test_a_reduction_alone(golden: Golden) -> None:
    sch = sampled(
        row_sum(),
        cross_thread_reduction,
        choices={"cross_thread:B": True},
        decisions={"threads:B": 8},
    )
    assert_golden(golden, "cross_thread_reduction", sch)


def test_below_its_consumer(golden: Golden) -> None:
    sch = sampled(
        norm(),
        cross_thread_reduction,
        auto_bind,
        choices={"cross_thread:squares": True},
        decisions={"threads:squares": 64},
    )
    assert_golden(golden, "cross_thread_reduction_below", sch)


def test_a_consumer_that_has_threads_already(golden: Golden) -> None:
    """The row sums and then the maxima go where the quotients are: all on the same threads."""
    sch = sampled(
        softmax(),
        GPU_INLINE,
        cross_thread_reduction(thread_extents=[16]),
        choices={"cross_thread:row_max": True, "cross_thread:row_sum": True},
    )
    assert_golden(golden, "cross_thread_reduction_shared", sch)


@pytest.mark.parametrize("workload", [softmax, norm, row_sum], ids=lambda w: w.__name__)
def test_metaschedules_programs_are_contained(workload: Any) -> None:
    register_all()  # the context imports them all, which takes 20 s without this
    rules = [
        ms.schedule_rule.AutoInline(True, True, True, False, False, False, []),
        ms.schedule_rule.CrossThreadReduction(EXTENTS),
        ms.schedule_rule.AutoBind(256, [32, 64, 128, 256, 512, 1024], 1024),
    ]
    sketches = Space([GPU_INLINE, cross_thread_reduction, auto_bind]).sketches(workload())
    found = 0
    for seed in range(6):
        context = ms.TuneContext(
            mod=workload().mod,
            target=Target(CUDA),
            rand_state=seed + 1,
            space_generator=ms.space_generator.PostOrderApply(
                sch_rules=rules, postprocs=[], mutator_probs={}
            ),
        )
        for sch in context.generate_design_space():
            assert any(_reaches(sketch.trace, sch) for sketch in sketches), sch.trace
            found += 1
    assert found > 6


def _reaches(trace: Any, theirs: Any) -> bool:
    drawn = [
        int(theirs.trace.insts[k].attrs[0][int(theirs.trace.decisions[i])])
        for k, i in enumerate(theirs.trace.insts)
        if i.kind.name == "SampleCategorical"
    ]
    if len(drawn) < len(trace.decisions):
        return False
    # It also draws where the number of threads is given by the consumer; such draws change nothing.
    for values in itertools.combinations(drawn, len(trace.decisions)):
        decisions = dict(zip(trace.decisions, values, strict=True))
        if not all(trace.distributions[s].permits(v) for s, v in decisions.items()):
            continue
        if structurally_equal(trace.with_decisions(decisions).replay().mod, theirs.mod):
            return True
    return False


@pytest.mark.parametrize("workload", [softmax, norm, row_sum], ids=lambda w: w.__name__)
def test_cuda_source_is_generated(workload: Any) -> None:
    space = Space([GPU_INLINE, cross_thread_reduction, auto_bind])
    for sketch in space.sketches(workload()):
        for seed in range(2):
            source = cuda_source(sketch.sample(seed).mod)
            assert "__global__" in source and "threadIdx.x" in source


def test_it_is_a_choice() -> None:
    sketches = Space([cross_thread_reduction]).sketches(row_sum())
    assert [dict(s.choices)["cross_thread:B"] for s in sketches] == ["True", "False"]


@pytest.mark.parametrize("workload", [elementwise, matmul])
def test_where_it_does_not_apply(workload: Any) -> None:
    """No reduction; and one whose spatial loops are parallel enough."""
    assert not sampled(workload(), cross_thread_reduction).trace.instructions


_NO_NUMBER = "it takes a list of positive integers, and {!r} is none"
_TOO_LARGE = "at least one must be of 1 to max_threads_per_block=1024"


@pytest.mark.parametrize(
    ("extents", "message"),
    [
        ([], _TOO_LARGE),
        ([8, 0], _NO_NUMBER.format(0)),
        (["4"], _NO_NUMBER.format("4")),
        ("4", _NO_NUMBER.format("4")),
        ([2048], _TOO_LARGE),
    ],
)
def test_bad_options(extents: Any, message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        sampled(row_sum(), cross_thread_reduction(thread_extents=extents))


def test_binding(golden: Golden) -> None:
    sch = sampled(chain(), auto_bind, decisions={"threads:B": 32, "threads:C": 64})
    assert_golden(golden, "auto_bind", sch)


def test_binding_more_than_the_blocks_can_hold(golden: Golden) -> None:
    sch = sampled(elementwise(), auto_bind(max_threadblocks=2, max_threads_per_block=16))
    assert_golden(golden, "auto_bind_rest", sch)
    assert not sch.trace.decisions


def test_binding_a_reduction_without_spatial_loops(golden: Golden) -> None:
    sch = sampled(NRM(4, 8), auto_bind)
    assert_golden(golden, "auto_bind_unit", sch)


def test_binding_what_is_left(golden: Golden) -> None:
    sch = sampled(chain(), auto_bind(thread_extents=[32]))
    assert "bind" in str(sch.trace)
    left = Schedule(chain())
    auto_bind(left, left.get_block("B"), thread_extents=[32])
    bind_unbound_blocks(left, 256, 64)
    assert_golden(golden, "bind_unbound_blocks", left)
    once = str(left.mod)
    bind_unbound_blocks(left, 256, 64)
    assert str(left.mod) == once


def test_bound_blocks_are_left_alone() -> None:
    sch = sampled(elementwise(), auto_bind)
    again = Space([auto_bind, auto_bind.renamed("again")]).sample(elementwise(), seed=0)
    assert str(again.mod) == str(sch.mod)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_threadblocks": 0}, r"auto_bind\(max_threadblocks=0\): it takes an integer"),
        ({"max_threads_per_block": -1}, r"max_threads_per_block=-1\): it takes an integer"),
        ({"thread_extents": [32, 0]}, r"thread_extents=\[32, 0\]\): it takes a list of positive"),
        ({"thread_extents": "32"}, r"thread_extents='32'\): it takes a list of positive"),
    ],
)
def test_bad_binding_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SpaceError, match=message):
        sampled(elementwise(), auto_bind(**options))


@pytest.mark.parametrize("name", ["scan_through_two_blocks", "jacobi", "last_wins"])
def test_iterations_that_wait_for_others_share_no_threads(name: str) -> None:
    """One thread runs the loop."""
    text = sampled(odd(name).workload, auto_bind).mod.script()
    assert 'in T.thread_binding(1, thread="threadIdx.x")' in text


def test_what_cannot_be_bound_is_left_alone() -> None:
    """TVM binds no loop around a block that reads what it writes."""
    assert "thread_binding" not in sampled(odd("cumsum").workload, auto_bind).mod.script()
