"""How often a program is called: by whether its calls can give different results."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import WorkloadError
from schedlang.targets.measure.backend import Calls
from schedlang.targets.measure.verification import Repeats
from schedlang.workloads import from_prim_func
from tests.targets.measure.test_runner import QUICK, Bench, bench_of, reason
from tests.targets.programs import from_body

TWENTY = Repeats(least=20, most=20, seconds=0.0, longest=100.0)
TENSORS = 'A: T.Buffer((64,), "float32"), C: T.Buffer((64,), "float32")'
RIGHT = """
for i in T.parallel(64):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        C[vi] = A[vi] * T.float32(2)
"""
# It calls a function of which nothing is known, and all results are right.
CALLS = """
for i in T.parallel(64):
    C[i] = A[i] * T.float32(2) + T.Cast("float32", T.min(T.call_extern("int32", "abs", i), 0))
"""
# In one thread, or where the second iteration begins after the first ended, this is right too.
RACE = """
for i in range(64):
    C[i] = T.float32(0)
for k in T.parallel(2):
    for i in range(64):
        C[i] = C[i] + A[i] * T.float32(2) * T.cast(k, "float32")
"""


def calls_of(bench: Bench, text: str) -> int:
    """Return the number of calls when a program is verified, but not those that time it."""
    program = bench._backend.compile(from_body(text, TENSORS))
    entry, done = program.entry, []

    def counted(*tensors: Any) -> None:
        done.append(None)
        entry(*tensors)

    def timed(calls: Calls) -> float:
        entry(*calls.tensors)
        return 1e-6

    program.entry = counted  # type: ignore[method-assign]
    program.seconds_per_call = timed  # type: ignore[method-assign]
    assert bench._runner.run(program, QUICK, None, 1.0, TWENTY).verified
    return len(done)


def test_a_program_that_cannot_race_is_called_on_each_draw() -> None:
    bench = bench_of(from_prim_func(from_body(RIGHT, TENSORS)["main"]))
    assert bench._runner.reference is not None
    draws = len(bench._runner.reference.results)
    assert draws > 1
    assert calls_of(bench, RIGHT) == draws
    assert calls_of(bench, CALLS) >= draws + TWENTY.least


def test_a_slow_program_that_was_called_only_once_is_compared_after_that_call() -> None:
    bench = bench_of(from_prim_func(from_body(RIGHT, TENSORS)["main"]))
    program = bench._backend.compile(from_body(RIGHT, TENSORS))
    entry = program.entry

    def slow(*tensors: Any) -> None:
        entry(*tensors)
        time.sleep(0.02)

    def timed(*_arguments: Any, **_options: Any) -> float:
        raise AssertionError("it was given up after its first call")

    program.entry = slow  # type: ignore[method-assign]
    program.seconds_per_call = timed  # type: ignore[method-assign]
    found = bench._runner.run(program, QUICK, 1e-6, math.inf)
    assert found.gave_up and found.verified and len(found.samples) == 1


def test_a_race_is_refused_whatever_was_computed() -> None:
    bench = bench_of(from_prim_func(from_body(RIGHT, TENSORS)["main"]))
    assert "loop 'k' run in parallel and update the same elements of 'C'" in reason(
        bench, from_body(RACE, TENSORS)
    )


def test_an_unscheduled_program_that_races_is_told() -> None:
    text = """
for k in T.parallel(64):
    with T.sblock("C"):
        vk = T.axis.opaque(64, k)
        C[0] = C[0] + A[vk]
"""
    workload = from_prim_func(from_body(text, TENSORS)["main"])
    with pytest.raises(WorkloadError, match="cannot be the reference: iterations of loop 'k' run"):
        sl.tune(workload, trials=1, progress=False)
