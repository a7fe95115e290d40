"""Programs of any extents: made from those of some, scheduled, and put together in branches."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tvm import te

import schedlang as sl
from schedlang.interpreters.conversions import to_symbolic
from schedlang.tvm.full_tiles import with_full_tiles
from schedlang.tvm.served_extents import Branching
from schedlang.tvm.symbolic_program import SymbolicProgram, UnifyError, fit, unify

Programs = Callable[..., Any]


def product(n: int, m: int) -> Any:
    """``n`` by 40 times 40 by ``m``."""
    return sl.workloads.matmul(n, m, 40)


def long_sums(n: int, m: int) -> Any:
    """Sums of ``m`` products."""
    return sl.workloads.matmul(n, 24, m)


def scale(n: int, m: int) -> Any:
    """Twice a matrix, with its rows turned round."""
    a = te.placeholder((n, m), name="A")
    return [a, te.compute((n, m), lambda i, j: a[n - 1 - i, j] * 2.0, name="B")]


def halves(n: int, m: int) -> Any:
    """The larger of two neighbours; the last one of an odd number is left out."""
    a = te.placeholder((n + 1, m), name="A")
    k = te.reduce_axis((0, 2), name="k")
    pairs = ((n + 1) // 2, m)
    return [a, te.compute(pairs, lambda i, j: te.max(a[i * 2 + k, j], axis=k), name="B")]


def made(programs: Programs, count: int = 14, seed: int = 0) -> SymbolicProgram:
    """The program for any extents up to 60."""
    rng = random.Random(seed)
    points = [{"n": rng.randint(1, 60), "m": rng.randint(1, 60)} for _ in range(count)]
    return unify(points, [workload(programs, **point).mod for point in points])


def workload(programs: Programs, n: int, m: int) -> sl.Workload:
    """The program for some extents."""
    return sl.workloads.as_workload(programs(n, m))


@pytest.mark.parametrize("programs", [product, long_sums, scale, halves])
def test_programs_of_other_extents_are_cases_of_the_one(programs: Programs) -> None:
    program = made(programs)
    for n, m in ((1, 1), (61, 59), (200, 2), (7, 300)):
        assert program.is_program_of({"n": n, "m": m}, workload(programs, n, m).mod)
        assert not program.is_program_of({"n": n + 2, "m": m}, workload(programs, n, m).mod)


def test_a_program_is_none_of_another_computation() -> None:
    assert not made(scale).is_program_of({"n": 4, "m": 4}, workload(product, 4, 4).mod)


def test_shapes_tell_the_extents() -> None:
    readings = made(halves).readings
    assert (readings["n"].argument, readings["n"].axis, readings["n"].more) == (0, 0, 1)
    assert (readings["m"].argument, readings["m"].axis, readings["m"].more) == (0, 1, 0)


def test_an_extent_that_no_shape_tells_is_named() -> None:
    def summed(n: int, m: int) -> Any:
        a = te.placeholder((64,), name="A")
        return [a, te.compute((m,), lambda i: a[i % 8] * float(n), name="B")]

    with pytest.raises(UnifyError):
        made(summed)


def test_programs_with_other_statements_are_refused() -> None:
    def even_or_odd(n: int, m: int) -> Any:
        return scale(n, m) if n % 2 else product(n, m)

    with pytest.raises(UnifyError, match="statements"):
        made(even_or_odd)


def test_numbers_that_follow_from_nothing_are_refused() -> None:
    def drawn(n: int, m: int) -> Any:
        a = te.placeholder((n, m), name="A")
        offset = random.Random(n * 1000 + m).randint(2, 10**6)
        return [a, te.compute((n, m + offset), lambda i, j: a[i, j % m], name="B")]

    with pytest.raises(UnifyError, match="follows from the extents by no rule"):
        made(drawn)


@given(st.integers(1, 4), st.integers(-3, 9), st.integers(1, 4), st.integers(0, 50))
def test_formulas_are_found(a: int, b: int, divisor: int, seed: int) -> None:
    rng = random.Random(seed)
    points = [{"n": rng.randint(4, 400), "m": rng.randint(4, 400)} for _ in range(24)]
    values = [(a * point["n"] + b) // divisor for point in points]
    found = fit(values, points)
    assert found is not None
    assert [found.at(point) for point in points] == values


def test_a_formula_may_be_a_product_of_extents() -> None:
    points = [{"n": n, "m": m} for n in (2, 3, 5, 8) for m in (1, 4, 9)]
    found = fit([3 * p["n"] * p["m"] + p["n"] for p in points], points)
    assert found is not None
    assert found.at({"n": 10, "m": 20}) == 610


def reference(programs: Programs, n: int, m: int, inputs: list[np.ndarray]) -> np.ndarray:
    """What the unscheduled program of these extents computes."""
    plain = workload(programs, n, m)
    out = np.zeros(plain.args[-1].shape, "float32")
    sl.Target("cpu").build(plain.mod).main(*inputs, out)
    return out


def inputs_of(programs: Programs, n: int, m: int) -> list[np.ndarray]:
    """Random inputs of the program for some extents."""
    rng = np.random.default_rng(n * 100 + m)
    args = workload(programs, n, m).args[:-1]
    return [rng.standard_normal(one.shape, dtype="float32") for one in args]


@pytest.mark.slow
@pytest.mark.parametrize("programs", [product, long_sums, scale, halves])
def test_schedules_of_one_shape_are_right_for_others(programs: Programs) -> None:
    program = made(programs)
    space = sl.default_space()
    applied = 0
    for seed in range(3):
        trace = space.sample(workload(programs, 24 + 8 * seed, 33), seed=seed).trace
        assert trace.workload is not None
        try:
            mod = to_symbolic(trace.instructions, trace.workload, program.mod)
        except sl.InvalidTrace:
            continue
        applied += 1
        kernel = sl.Target("cpu").build(mod).main
        for n, m in ((1, 1), (7, 33), (24, 16), (25, 31), (61, 64)):
            inputs = inputs_of(programs, n, m)
            expected = reference(programs, n, m, inputs)
            out = np.full_like(expected, np.nan)
            kernel(*inputs, out)
            np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)
    assert applied >= 2


def test_branches_take_the_program_that_the_extents_say() -> None:
    program = made(product)
    space = sl.default_space()
    trace = space.sample(workload(product, 24, 32), seed=1).trace
    alone = space.sample(workload(product, 5, 32), seed=2)
    assert trace.workload is not None
    scheduled = to_symbolic(trace.instructions, trace.workload, program.mod)
    branching = Branching(program)
    tree = branching.branch(
        "m",
        33,
        branching.branch("n", 6, branching.leaf(alone.mod), branching.leaf(scheduled)),
        branching.leaf(program.mod),
    )
    kernel = sl.Target("cpu").build(branching.function(tree)).main
    for n, m in ((5, 32), (6, 32), (30, 7), (5, 40), (60, 50)):
        inputs = inputs_of(product, n, m)
        expected = inputs[0] @ inputs[1]
        out = np.full_like(expected, np.nan)
        kernel(*inputs, out)
        np.testing.assert_allclose(out, expected, rtol=1e-4, atol=1e-4)


def test_branches_look_at_the_extent_where_the_shape_is_larger() -> None:
    program = made(halves)  # its argument has n + 1 rows
    alone = sl.Schedule(workload(halves, 5, 8))
    branching = Branching(program)
    body = branching.branch(
        "n",
        6,
        branching.branch("n", 5, branching.leaf(program.mod), branching.leaf(alone.mod)),
        branching.leaf(program.mod),
    )
    mod = branching.function(body)
    assert "n - 1 < 6" in mod.script()
    kernel = sl.Target("cpu").build(mod).main
    for n in (3, 4, 5, 6, 7):
        inputs = inputs_of(halves, n, 8)
        expected = reference(halves, n, 8, inputs)
        guarded = np.full((len(expected) + 4, 8), np.nan, "float32")
        kernel(*inputs, guarded[: len(expected)])
        np.testing.assert_array_equal(guarded[: len(expected)], expected)
        assert np.isnan(guarded[len(expected) :]).all()


def test_guards_that_data_decides_stay_as_they_are() -> None:
    def masked(n: int, m: int) -> Any:
        return product(n, m)

    program = made(masked)
    assert with_full_tiles(program.mod).script() == program.mod.script()
    script = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 8), "float32"), B: T.Buffer((16, 8), "float32")):
    for i, j in T.grid(16, 8):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            T.where(A[i, j] < T.float32(0.5))
            B[vi, vj] = A[vi, vj]
"""
    guarded = sl.workloads.from_script(script).mod
    assert with_full_tiles(guarded).script() == guarded.script()


def test_arguments_whose_extents_disagree_are_refused() -> None:
    kernel = sl.Target("cpu").build(made(product).mod).main
    [a, b] = inputs_of(product, 6, 8)
    with pytest.raises((ValueError, RuntimeError, TypeError)):
        kernel(a, b, np.zeros((7, 8), "float32"))
