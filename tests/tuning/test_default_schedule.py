"""``default_schedule``: deterministic, from the space, right, and there for every program."""

from __future__ import annotations

from typing import Any

import pytest

import schedlang as sl
from schedlang.measurement import Candidate
from schedlang.search import CoordinateDescent
from schedlang.targets import CPUTarget, LocalCPU
from schedlang.tuning import default_schedule
from schedlang.tvm.analysis.loop_nests import statements
from tests.modules.cpu.test_move_data import workload as moving

TARGET = CPUTarget("cpu", cores=2)
CONVOLUTION = sl.workloads.conv2d_bn_relu(14, 14, 16, 32, 3, 1, 1)
SOFTMAX = sl.workloads.softmax(32, 64)
PRODUCT = sl.workloads.matmul(64, 64, 64)


def estimate(sch: sl.Schedule) -> float:
    return TARGET.estimate(sch.mod)


def test_it_is_always_the_same_and_a_trace_of_the_space() -> None:
    for workload in (CONVOLUTION, SOFTMAX, PRODUCT):
        one, other = default_schedule(workload, TARGET), default_schedule(workload, TARGET)
        assert one.trace == other.trace
        again = TARGET.default_space().sample(
            workload, decisions=one.trace.decisions, choices=one.trace.choices
        )
        assert again.trace.decisions == one.trace.decisions
        assert str(again.mod.script()) == str(one.mod.script())


def test_it_computes_what_the_program_does() -> None:
    here = CPUTarget("cpu")
    with LocalCPU(PRODUCT, here, verify="all") as measurer:
        for workload in (PRODUCT, CONVOLUTION, SOFTMAX):
            measurer.bind(workload)
            default = default_schedule(workload, here)
            [measured] = measurer.measure([Candidate(0, default.mod)])
            assert measured.ok and measured.verified, measured.message


def test_no_draw_or_neighbour_is_clearly_faster_by_the_estimate() -> None:
    default = estimate(default_schedule(CONVOLUTION, TARGET))
    drawn = [TARGET.default_space().sample(CONVOLUTION, seed) for seed in range(8)]
    assert default <= min(map(estimate, drawn)) / 0.9
    assert default < estimate(sl.Schedule(CONVOLUTION)) / 10


def test_data_movement_has_its_own_space() -> None:
    assert "lanes_along" in default_schedule(moving("transpose"), TARGET).trace.choices
    given = default_schedule(moving("transpose"), TARGET, space=TARGET.default_space())
    assert "lanes_along" not in given.trace.choices


def test_a_search_starts_from_it() -> None:
    default = default_schedule(CONVOLUTION, TARGET)
    search = CoordinateDescent(TARGET.default_space(), CONVOLUTION, seed=3)
    search.suggest([default.trace])
    first, *others = search.ask(8)
    assert str(first.schedule.mod.script()) == str(default.mod.script())
    assert others


def failing(message: str = "no") -> Any:
    @sl.module(at="root")
    def broken(sch: sl.Schedule) -> None:
        raise RuntimeError(message)

    return broken


def test_a_space_that_fails_leaves_the_finishing_modules() -> None:
    space = TARGET.default_space() + failing()
    found = default_schedule(PRODUCT, TARGET, space=space)
    assert "T.parallel" in str(found.mod.script())
    nothing = default_schedule(PRODUCT, TARGET, space=sl.Space([failing()]))
    assert nothing.trace.instructions == ()


def test_a_target_without_an_estimate_gives_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CPUTarget, "estimate", lambda self, mod: None)
    trace = default_schedule(CONVOLUTION, TARGET).trace
    assert all(
        one.decision == one.distribution.origin()
        for one in trace.instructions
        if one.distribution is not None
    )


def test_an_estimate_that_fails_gives_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: CPUTarget, mod: Any) -> float:
        raise ValueError("unknown statement")

    monkeypatch.setattr(CPUTarget, "estimate", fail)
    assert default_schedule(PRODUCT, TARGET).trace.instructions


@pytest.mark.parametrize("target", ["x86/avx2", "aarch64/neon"])
def test_other_machines_have_defaults(target: str) -> None:
    found = default_schedule(CONVOLUTION, CPUTarget(target, cores=8))
    assert len(statements(found.mod["main"])) > 1
