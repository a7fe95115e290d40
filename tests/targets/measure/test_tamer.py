"""Programs whose results rounding decides on usual inputs: tamer ones are drawn."""

from __future__ import annotations

import json

import numpy as np
import pytest

import schedlang as sl
from schedlang.codec import decode, encode
from schedlang.measurement.problem import Problem
from schedlang.targets.measure.draws import InputDraw, draw_count, tamer_draws
from schedlang.targets.measure.inputs import InputSource
from schedlang.targets.measure.problem_values import results_of
from schedlang.tvm.analysis.characters import jumps, oscillates
from schedlang.workloads import from_prim_func, matmul, softmax
from schedlang.workloads.workload import Argument, Workload
from tests.targets.measure.test_runner import bench_of, outcome, reason
from tests.targets.programs import from_body

SINE, COSINE = "T.sin(s[vi, vj])", "T.cos(s[vi, vj])"
FRACTION = "s[vi, vj] - T.floor(s[vi, vj])"
FUNCTIONS = {"sine": SINE, "cosine": COSINE, "fraction": FRACTION}


def behind_sum(function: str, length: int, terms: str = "", size: int = 48) -> Workload:
    """A function of the elements of a product; ``terms`` is the body of its sum."""
    usual = "s[vi, vj] = s[vi, vj] + a[vi, vk] * b[vk, vj]"
    body = f"""
s = T.sblock_alloc_buffer(({size}, {size}), "float32")
for i, j, k in T.grid({size}, {size}, {length}):
    with T.sblock("s"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            s[vi, vj] = T.float32(0)
        {terms or usual}
for i, j in T.grid({size}, {size}):
    with T.sblock("y"):
        vi, vj = T.axis.remap("SS", [i, j])
        y[vi, vj] = {function}
"""
    signature = (
        f'a: T.Buffer(({size}, {length}), "float32"), b: T.Buffer(({length}, {size}), "float32"), '
        f'y: T.Buffer(({size}, {size}), "float32")'
    )
    return from_prim_func(from_body(body, signature)["main"])


def term(place: str) -> str:
    return f"s[vi, vj] = s[vi, vj] + a[vi, {place}] * b[{place}, vj]"


def without(lost: str) -> str:
    return f"s[vi, vj] = s[vi, vj] + T.if_then_else({lost}, T.float32(0), a[vi, vk] * b[vk, vj])"


@pytest.mark.slow
@pytest.mark.parametrize("length", [512, 4096])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_right_orders_agree_and_wrong_programs_do_not(name: str, length: int) -> None:
    function = FUNCTIONS[name]
    bench = bench_of(behind_sum(function, length))
    reference = bench._runner.reference
    assert reference is not None
    first = reference.results[0]
    assert first.draw.scale < 1
    spread = first.expected[0].max() - first.expected[0].min()
    assert spread > 0.05, "a draw on which nearly all is the same is none"
    third = f"(vk * {length // 4 + 1}) % {length}"
    for order in (f"{length - 1} - vk", third, f"(vk + {length // 2}) % {length}"):
        assert outcome(bench, behind_sum(function, length, term(order)).mod).verified
    for lost in (f"vk >= {length - 16}", f"vk == {length - 1}", "vk < 4"):
        assert "elements differ" in reason(bench, behind_sum(function, length, without(lost)).mod)
    shifted = behind_sum(f"{function} + T.float32(0.001)", length)
    assert "elements differ" in reason(bench, shifted.mod)


def test_the_first_draw_of_other_programs_is_as_it_was() -> None:
    for workload in (matmul(32, 32, 512), softmax(32, 256), behind_sum(SINE, 8)):
        reference = bench_of(workload)._runner.reference
        assert reference is not None
        assert reference.results[0].draw == InputDraw(0, ("plain",) * len(workload.args))


def test_a_program_that_no_smaller_input_tames_is_judged_on_plain_ones() -> None:
    """Its sum loses the same digits at every scale."""
    cancelled = "T.sin((s[vi, vj] * T.float32(1e9)) * T.float32(1e9))"
    reference = bench_of(behind_sum(cancelled, 512, size=16))._runner.reference
    assert reference is not None
    assert reference.results[0].draw.scale == 1 and not reference.results[0].draw.positive


@pytest.mark.slow
@pytest.mark.parametrize(("name", "length"), [("sine", 2048), ("fraction", 4096)])
def test_tune_accepts_what_is_right(name: str, length: int) -> None:
    workload = behind_sum(FUNCTIONS[name], length, size=64)
    result = sl.tune(workload, "cpu", trials=4, finals=2, verify="all", progress=False)
    assert {record.status for record in result.records} == {sl.Status.OK}
    assert all(record.verified for record in result.records)


def test_scaled_numbers_are_those_that_were_drawn_times_a_power_of_two() -> None:
    args = [Argument("x", (64,), "float32", "input"), Argument("n", (64,), "int32", "input")]
    source = InputSource(args, 3)
    for spread in ("plain", "wide", "special"):
        usual = source.values(InputDraw(0, (spread, spread)))
        tame = source.values(InputDraw(0, (spread, spread), scale=0.25))
        assert usual[0] is not None and tame[0] is not None
        assert (tame[0] == usual[0] * np.float32(0.25)).all()
        assert usual[1] is not None and (usual[1] == tame[1]).all()
    edges = [
        source.values(InputDraw(3, ("edges", "plain"), scale=scale))[0] for scale in (1.0, 0.25)
    ]
    assert edges[0] is not None and (edges[0] == edges[1]).all()
    draw = InputDraw(0, ("plain", "plain"), scale=0.25)
    assert decode(type(draw), json.loads(json.dumps(encode(draw)))) == draw
    assert [one.scale for one in tamer_draws(InputDraw(0, ("plain",) * 2), args)] == [
        2**-2,
        2**-4,
        2**-6,
    ]


def test_a_users_function_gets_tamer_inputs_too() -> None:
    args = (
        Argument("a", (32, 4096), "float32", "input"),
        Argument("b", (4096, 32), "float32", "input"),
        Argument("y", (32, 32), "float32", "output"),
    )
    source = InputSource(args, 0)
    found = results_of(Problem(reference=lambda a, b: np.sin(a @ b)), source, judges_first=True)
    assert found is not None and found.results[0].draw.scale < 1
    # Where it is the same on all tamer inputs, plain ones are better.
    flat = Problem(reference=lambda a, b: np.floor(1e-3 * (a @ b) + 0.5) + 0 * a[:, :32])
    kept = results_of(flat, source, judges_first=True)
    assert kept is not None and kept.results[0].draw.scale == 1


def test_what_oscillates_and_jumps() -> None:
    for function, wanted in (
        (SINE, (True, False)),
        (FRACTION, (True, True)),
        ("T.exp(s[vi, vj])", (False, False)),
        ('T.Cast("float32", T.Cast("int32", s[vi, vj]))', (True, True)),
        ("T.fmod(s[vi, vj], T.float32(3))", (True, True)),
    ):
        mod = behind_sum(function, 8).mod
        assert (oscillates(mod), jumps(mod)) == wanted, function
    assert draw_count(behind_sum(SINE, 8)) == 4


@pytest.mark.parametrize("scale", [1.0, 0.25])
def test_numbers_without_axes_are_arrays(scale: float) -> None:
    arg = Argument("a", (), "float32", "input")
    [value] = InputSource([arg], 0).values(InputDraw(0, ("plain",), scale=scale))
    assert type(value) is np.ndarray and abs(value) <= scale
