"""Programs that are right only when another call left the right numbers behind, or now and then."""

from __future__ import annotations

import math
from typing import Any

import pytest

from schedlang.targets.errors import Fault
from schedlang.targets.measure.verification import (
    FINAL_REPEATS,
    REMOTE_FINAL_REPEATS,
    REPEATS,
    Repeats,
)
from schedlang.tvm.program import to_json
from schedlang.workloads import from_prim_func
from tests.targets.measure.test_runner import QUICK, bench_of, outcome, reason
from tests.targets.programs import from_body

TENSORS = 'A: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")'
PRODUCE = """
    for i, j in T.grid({rows}, 64):
        with T.sblock("W"):
            vi, vj = T.axis.remap("SS", [i, j])
            W[vi, vj] = A[vi, vj] * T.float32(2)
"""
CONSUME = """
    for i, j in T.grid(64, 64):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = W[vi, vj] + T.float32(1)
"""
ALLOCATE = """
with T.sblock("root"):
    W = T.sblock_alloc_buffer((64, 64), "float32")
"""
RIGHT = from_body(ALLOCATE + PRODUCE.format(rows=64) + CONSUME, TENSORS)
# The same numbers where the rows lie beyond what is asked for: a halo of zeros.
PADDED = """
with T.sblock("root"):
    W = T.sblock_alloc_buffer((66, 64), "float32")
    for i, j in T.grid({last}, 64):
        with T.sblock("W"):
            vi, vj = T.axis.remap("SS", [i, j])
            W[{row}, vj] = T.if_then_else({row} >= 1 and {row} < 65, A[{row} - 1, vj], T.float32(0))
    for i, j in T.grid(64, 64):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = W[vi, vj] + W[vi + 2, vj]
"""
PER_ROW = """
for i in T.parallel(64):
    with T.sblock("row"):
        vi = T.axis.spatial(64, i)
        T.reads(A[vi, 0:64])
        T.writes(C[vi, 0:64])
        W = T.sblock_alloc_buffer((8, 64), "float32")
        {first}
        {second}
"""
FILL_ROW = """for j in range(64):
            W[vi % 8, j] = A[vi, j] * T.float32(2)"""
USE_ROW = """for j in range(64):
            C[vi, j] = W[vi % 8, j] + T.float32(1)"""
WRONG: dict[str, tuple[Any, Any]] = {
    "read before it is computed": (
        RIGHT,
        from_body(ALLOCATE + CONSUME + PRODUCE.format(rows=64), TENSORS),
    ),
    "a row that is not computed": (
        RIGHT,
        from_body(ALLOCATE + PRODUCE.format(rows=63) + CONSUME, TENSORS),
    ),
    "a halo that is not cleared": (
        from_body(PADDED.format(last=66, row="vi"), TENSORS),
        from_body(PADDED.format(last=65, row="(vi + 1)"), TENSORS),
    ),
    "read before it is computed, in a parallel loop": (
        from_body(PER_ROW.format(first=FILL_ROW, second=USE_ROW), TENSORS),
        from_body(PER_ROW.format(first=USE_ROW, second=FILL_ROW), TENSORS),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_intermediate_results_of_an_earlier_call_do_not_count(name: str) -> None:
    right, wrong = WRONG[name]
    bench = bench_of(from_prim_func(right["main"]))
    for _ in range(4):
        assert outcome(bench, right).verified
        assert "differ" in reason(bench, wrong)
        # One that is not verified leaves right numbers behind too.
        bench.build(2, to_json(right))
        assert not bench.run(2, QUICK, None, None).verified
        assert "differ" in reason(bench, wrong)


def test_on_inputs_that_are_given_too() -> None:
    bench = bench_of(from_prim_func(RIGHT["main"]))
    bench._binding.__dict__["draws"] = 1
    bench._runner.learn(bench._unscheduled_program())
    assert bench._runner.reference is not None and len(bench._runner.reference.results) == 1
    for _ in range(3):
        assert outcome(bench, RIGHT).verified
        assert "differ" in reason(bench, WRONG["read before it is computed"][1])


def test_a_program_that_was_not_verified_may_have_changed_an_input() -> None:
    bench = bench_of(from_prim_func(from_body(STEADY, TENSORS)["main"]))
    spoiler = bench._backend.compile(from_body(STEADY + SPOIL, TENSORS))
    steady = bench._backend.compile(from_body(STEADY, TENSORS))
    for draws in (3, 1):
        bench._binding.__dict__["draws"] = draws
        bench._runner.learn(bench._unscheduled_program())
        for _ in range(2):
            assert not bench._runner.run(spoiler, QUICK, 1e-12, 1.0).verified
            assert bench._runner.run(steady, QUICK, None, 1.0).verified
            assert bench._runner.sample(spoiler, 1, QUICK).seconds > 0
            assert bench._runner.sample(steady, 1, QUICK, verify=True).seconds > 0


NOW_AND_THEN = """
for i, j in T.grid(64, 64):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] * T.float32(2)
for i in T.serial(1):
    with T.sblock("D"):
        vi = T.axis.spatial(1, i)
        if T.call_extern("int32", "rand") % 8 == 7:
            C[63, 63] = T.float32(5)
"""
SPOIL = """
for i in T.serial(1):
    with T.sblock("A"):
        vi = T.axis.spatial(1, i)
        A[vi, 0] = T.float32(7)
"""
STEADY = NOW_AND_THEN[: NOW_AND_THEN.index("for i in T.serial")]


def test_a_program_that_is_wrong_in_one_call_of_eight_is_found() -> None:
    """It is accepted with the probability (7/8)^200, below 1e-11."""
    bench = bench_of(from_prim_func(from_body(STEADY, TENSORS)["main"]))
    often = Repeats(least=200, most=200, seconds=0.0, longest=math.inf)
    program = bench._backend.compile(from_body(NOW_AND_THEN, TENSORS))
    for _ in range(4):
        with pytest.raises(Fault, match=r"run again it gives other results"):
            bench._runner.run(program, QUICK, None, math.inf, often)
    steady = bench._backend.compile(from_body(STEADY, TENSORS))
    assert bench._runner.run(steady, QUICK, None, math.inf, often).verified


def test_samples_of_a_program_that_is_wrong_now_and_then_are_refused() -> None:
    """It is accepted with the probability (7/8)^200, below 1e-11."""
    bench = bench_of(from_prim_func(from_body(STEADY, TENSORS)["main"]))
    program = bench._backend.compile(from_body(NOW_AND_THEN, TENSORS))
    for calls_of_a_sample in (1, 5):
        with pytest.raises(Fault, match=r"elements differ.*run again it gives other results"):
            for _ in range(100):
                bench._runner.sample(program, calls_of_a_sample, QUICK, verify=True)
    for _ in range(100):
        bench._runner.sample(program, 1, QUICK)
    steady = bench._backend.compile(from_body(STEADY, TENSORS))
    assert bench._runner.sample(steady, 5, QUICK, verify=True).seconds > 0


def test_a_sample_that_changes_an_input_is_refused_and_harms_no_other() -> None:
    bench = bench_of(from_prim_func(from_body(STEADY, TENSORS)["main"]))
    spoiler = bench._backend.compile(from_body(STEADY + SPOIL, TENSORS))
    steady = bench._backend.compile(from_body(STEADY, TENSORS))
    for verify in (True, False, True):
        if verify:
            with pytest.raises(Fault, match="argument 0 is an input"):
                bench._runner.sample(spoiler, 1, QUICK, verify=True)
        else:
            bench._runner.sample(spoiler, 1, QUICK)
        assert bench._runner.sample(steady, 1, QUICK, verify=True).seconds > 0


IN_PLACE = """
for i, j in T.grid(64, 64):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = C[vi, vj] + A[vi, vj]
"""


def test_samples_of_a_program_that_works_in_place_are_right_in_their_first_call_only() -> None:
    bench = bench_of(from_prim_func(from_body(IN_PLACE, TENSORS)["main"]))
    assert bench._runner._data.in_place
    program = bench._backend.compile(from_body(IN_PLACE, TENSORS))
    for calls_of_a_sample in (1, 5):
        assert bench._runner.sample(program, calls_of_a_sample, QUICK, verify=True).seconds > 0
    wrong = bench._backend.compile(from_body(IN_PLACE + IN_PLACE.replace('"C"', '"D"'), TENSORS))
    with pytest.raises(Fault, match="elements differ"):
        bench._runner.sample(wrong, 5, QUICK, verify=True)


def calls(repeats: Repeats, seconds: float, draws: int = 1) -> int:
    """How many calls of a program that takes ``seconds``."""
    done: list[None] = []
    for call in repeats.calls(draws, seconds, lambda: seconds * len(done)):
        done.append(call)
    return len(done)


def test_short_programs_are_called_often_and_long_ones_seldom() -> None:
    assert calls(REPEATS, 1e-6) == 200 and calls(REPEATS, 1e-6, draws=3) == 67
    assert calls(REPEATS, 5e-4) == 16
    assert calls(REPEATS, 1.0) == 0 and calls(REPEATS, 0.01) == 2
    assert calls(REMOTE_FINAL_REPEATS, 1e-6) == 200
    assert calls(REMOTE_FINAL_REPEATS, 0.04) == 20
    assert calls(REMOTE_FINAL_REPEATS, 0.25) == 4
    assert calls(REMOTE_FINAL_REPEATS, 0.25, draws=2) == 2
    assert calls(FINAL_REPEATS, 1e-6) == 200 and calls(FINAL_REPEATS, 2e-3) == 25
