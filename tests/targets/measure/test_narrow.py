"""Sums in narrow types: a missing term is found, and another order is not refused."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import te
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from schedlang import workloads
from schedlang.targets.measure.right_results import WideResults
from schedlang.tvm.analysis.characters import sums_narrowly, widened
from schedlang.tvm.program import structurally_equal
from schedlang.workloads import from_prim_func
from schedlang.workloads.workload import Workload
from tests.targets.measure.test_runner import bench_of, outcome, reason
from tests.targets.programs import RANDOM, from_body

NARROW = ("float16", "bfloat16")
TERMS = 256


def product(dtype: str, terms: int = TERMS, *, rows: int = 16, bias: bool = False) -> Workload:
    """C = A @ B, of which ``terms`` of 256 terms are added up."""
    a = te.placeholder((rows, TERMS), dtype, name="A")
    b = te.placeholder((TERMS, rows), dtype, name="B")
    k = te.reduce_axis((0, terms), name="k")
    c = te.compute((rows, rows), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    if not bias:
        return from_prim_func(te.create_prim_func([a, b, c]))
    d = te.placeholder((rows,), dtype, name="D")
    out = te.compute((rows, rows), lambda i, j: c[i, j] + d[j], name="E")
    return from_prim_func(te.create_prim_func([a, b, d, out]))


def other_orders(mod: IRModule) -> list[IRModule]:
    """Right schedules that add up in another order."""
    found = []
    for factor, axis in ((8, 0), (64, 2)):
        sch = Schedule(mod)
        block = sch.get_sblock("C")
        _, _, k = sch.get_loops(block)
        _, inner = sch.split(k, [None, factor])
        sch.rfactor(inner, axis)
        found.append(sch.mod)
    sch = Schedule(mod)
    block = sch.get_sblock("C")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(k, [None, 4])
    sch.reorder(outer, i, inner, j)
    sch.unroll(j)
    sch.decompose_reduction(block, outer)
    return [*found, sch.mod]


@pytest.mark.parametrize("bias", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("dtype", NARROW)
def test_a_product_without_its_last_term_is_found(dtype: str, bias: bool) -> None:
    right = product(dtype, bias=bias)
    bench = bench_of(right)
    for mod in [right.mod, *other_orders(right.mod)]:
        assert outcome(bench, mod).verified
    found = reason(bench, product(dtype, TERMS - 1, bias=bias).mod)
    assert f"output 0 ({dtype})" in found and "rounding does not explain" in found


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("dtype", NARROW)
def test_right_orders_of_few_sums_are_accepted(dtype: str, rows: int) -> None:
    right = product(dtype, rows=rows)
    bench = bench_of(right)
    for mod in other_orders(right.mod):
        assert outcome(bench, mod).verified


def test_narrow_types_become_wide_and_only_some_programs_are_judged_by_it() -> None:
    for dtype in ("float32", *NARROW):
        right = product(dtype).mod
        wide = widened(right)
        assert wide is not None and structurally_equal(wide, product("float64").mod)
        assert sums_narrowly(right) == (dtype in NARROW)
    assert widened(product("float64").mod) is None and widened(product("int8").mod) is None
    softmax = workloads.softmax(8, 8).mod
    assert widened(softmax) is not None and not sums_narrowly(softmax)
    assert sums_narrowly(workloads.conv2d(8, 8, 4, 4, 3, 1, 1, dtype="float16").mod)
    assert widened(from_body(RANDOM)) is None


def test_a_bound_counts_all_elements_and_each() -> None:
    bound = WideResults(np.zeros(100, "float32"), np.ones(100, "float32"), 0.5, 0.1)
    assert bound.mismatch(np.full(100, 0.09, "float16")) is None
    text = bound.mismatch(np.full(100, 0.11, "float16"))
    assert text is not None and "0.11 in the root mean square" in text
    one = np.zeros(100, "float16")
    one[7] = 0.6
    text = bound.mismatch(one)
    assert text is not None and "0.6 at [7], where 0.5 is allowed" in text


def total(dtype: str, terms: int, *, squares: bool = False) -> Workload:
    """C = sum of A, or of A * A."""
    a = te.placeholder((terms,), dtype, name="A")
    k = te.reduce_axis((0, terms), name="k")
    c = te.compute((), lambda: te.sum(a[k] * a[k] if squares else a[k], axis=k), name="C")
    return from_prim_func(te.create_prim_func([a, c]))


def in_parts(workload: Workload) -> IRModule:
    """The same sum as 64 shorter ones."""
    schedule = Schedule(workload.mod)
    (loop,) = schedule.get_loops(schedule.get_sblock("C"))
    schedule.rfactor(schedule.split(loop, [None, 64])[1], 0)
    return schedule.mod


def test_a_better_order_of_a_sum_that_gets_stuck_is_accepted() -> None:
    """In float16, 2048 + 1/3 is 2048: the unscheduled program is wrong by a third."""
    workload = total("float16", 9216, squares=True)
    for mod in (in_parts(workload), workload.mod):
        assert outcome(bench_of(workload), mod).verified


def test_results_in_float64_that_rounding_decides_are_not_compared() -> None:
    """There is no wider type that shows it: large numbers cancel in the sum of some draws."""
    for terms in range(128, 1152, 64):
        workload = total("float64", terms)
        assert outcome(bench_of(workload), in_parts(workload)).verified


def test_a_sum_that_happens_to_be_nearly_zero_is_drawn_again() -> None:
    """The plain draw of this length has the sum 0.1, of numbers up to 1."""
    workload = total("float32", 5400)
    bench = bench_of(workload)
    outcome(bench, in_parts(workload))
    assert bench._runner.reference is not None
    assert abs(float(bench._runner.reference.results[0].expected[0])) > 1.0
