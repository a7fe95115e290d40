"""How exactly each output of a program is compared, by what flows into it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx, topi

from schedlang.targets.measure.numerics import compare, numerics_of
from schedlang.tvm.codegen import compile_for_host
from schedlang.workloads import from_script, from_te
from schedlang.workloads.workload import Workload

Array = np.ndarray[Any, Any]


class Verified:
    """A program, its results on some inputs, and whether other results pass for them."""

    def __init__(self, workload: Workload, *inputs: Array) -> None:
        args = workload.args
        written = [place for place, arg in enumerate(args) if arg.role != "input"]
        left = iter(inputs)
        self._before = [None if arg.role == "output" else next(left) for arg in args]
        tensors = [
            np.zeros(arg.shape, arg.dtype) if value is None else value.copy()
            for arg, value in zip(args, self._before, strict=True)
        ]
        compile_for_host(workload.mod)(*tensors)
        self.right = [tensors[place] for place in written]
        self._dtypes = [args[place].dtype for place in written]
        self.numerics = numerics_of(workload.mod, written)

    def refusal(self, *outputs: Array) -> str | None:
        return compare(outputs, self.right, self._dtypes, self.numerics, inputs=self._before)


def function(signature: str, body: str) -> Workload:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return from_script(f"@T.prim_func(s_tir=True)\ndef f({signature}):\n{lines}\n")


def random(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def argmax(dtype: str, *, computed: bool) -> Workload:
    """The index of the largest element of each row, and that element; perhaps of ``3 * x + 1``."""
    x = te.placeholder((40, 100), dtype, name="x")
    k = te.reduce_axis((0, 100), name="k")
    score = x
    if computed:
        three, one = tirx.const(3, dtype), tirx.const(1, dtype)
        score = te.compute(x.shape, lambda i, j: x[i, j] * three + one, name="score")
    largest = te.comm_reducer(
        lambda a, b: (tirx.Select(a[1] >= b[1], a[0], b[0]), tirx.Select(a[1] >= b[1], a[1], b[1])),
        lambda index, value: (tirx.const(-1, index), tirx.min_value(value)),
    )
    top = te.compute((40,), lambda i: largest((k, score[i, k]), axis=k), name="top")
    return from_te([x, *top])


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_indices_that_are_all_off_by_one_are_refused(dtype: str, computed: bool) -> None:
    found = Verified(argmax(dtype, computed=computed), random((40, 100), dtype))
    at, largest = found.right
    assert found.refusal(at.copy(), largest) is None
    reason = found.refusal((at + 1) % 100, largest)
    assert reason is not None and reason.startswith("output 0 (int32): 40 of 40 elements differ")
    one_off = at.copy()
    one_off[7] += 1 if at[7] < 99 else -1
    assert "1 of 40 elements differ; at [7]" in (found.refusal(one_off, largest) or "")


@pytest.mark.parametrize("index", [-1, 100, 1 << 30])
def test_an_index_outside_is_refused(index: int) -> None:
    found = Verified(argmax("float32", computed=True), random((40, 100)))
    at, largest = found.right
    at = at.copy()
    at[3] = index
    assert "1 of 40 elements differ" in (found.refusal(at, largest) or "")


def test_of_equal_values_each_index_is_right() -> None:
    x = random((40, 100))
    x[5, [20, 70]] = 2.0
    x[6, 20], x[6, 70] = 2.0, np.nextafter(np.float32(2), np.float32(1))
    found = Verified(argmax("float32", computed=False), x)
    at, largest = found.right
    assert list(at[5:7]) == [20, 20]
    at = at.copy()
    at[5] = 70
    assert found.refusal(at, largest) is None
    # Nothing was rounded: the smaller value is not the largest.
    at[6] = 70
    assert "1 of 40 elements differ; at [6]" in (found.refusal(at, largest) or "")


def test_of_values_that_rounding_orders_each_index_is_right() -> None:
    x = random((40, 100))
    x[6, 20], x[6, 70] = 2.0, np.nextafter(np.float32(2), np.float32(1))
    x[7, 20], x[7, 70] = 2.0, 1.99
    found = Verified(argmax("float32", computed=True), x)
    at, largest = found.right
    at = at.copy()
    at[6] = 70
    assert found.refusal(at, largest) is None
    at[7] = 70
    assert "1 of 40 elements differ; at [7]" in (found.refusal(at, largest) or "")


def test_equal_integers_leave_a_choice_too() -> None:
    workload = function(
        'x: T.Buffer((30, 77), "int8"), at: T.Buffer((30,), "int64"), low: T.Buffer((30,), "int8")',
        """
for i, k in T.grid(30, 77):
    with T.sblock("argmin"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            at[vi] = T.int64(-1)
            low[vi] = T.int8(127)
        if x[vi, vk] < low[vi]:
            at[vi] = T.Cast("int64", vk)
            low[vi] = x[vi, vk]
""",
    )
    x = np.random.default_rng(0).integers(-9, 100, (30, 77)).astype(np.int8)
    x[2, [10, 60]] = -20
    found = Verified(workload, x)
    at, low = (value.copy() for value in found.right)
    at[2] = 60
    assert found.refusal(at, low) is None
    assert found.refusal((at + 1) % 77, low) is not None
    at[2] += 1 << 32
    assert found.refusal(at, low) is not None


@pytest.mark.parametrize("computed", [False, True])
def test_indices_are_followed_through_copies(computed: bool) -> None:
    x = te.placeholder((24, 50), name="x")
    score = te.compute(x.shape, lambda i, j: x[i, j] * 3.0 + 1.0, name="score") if computed else x
    workload = from_te([x, topi.cast(topi.argmax(score, axis=1, keepdims=True), "int64")])
    values = random((24, 50))
    values[4, [10, 40]] = 2.0
    found = Verified(workload, values)
    (at,) = (value.copy() for value in found.right)
    assert at[4, 0] == 10 and at.dtype == np.int64
    assert found.refusal((at + 1) % 50) is not None
    at[4, 0] = 40
    # The program asks for the first one: only where values were rounded is another one right.
    assert (found.refusal(at) is None) == computed


def test_a_single_index() -> None:
    x = te.placeholder((5, 30), name="x")
    score = te.compute(x.shape, lambda i, j: x[i, j] * 3.0 + 1.0, name="score")
    values = random((5, 30))
    values[[2, 3], 7] = 2.0, np.nextafter(np.float32(2), np.float32(1))
    found = Verified(from_te([x, topi.argmax(score, axis=None)]), values)
    (at,) = found.right
    assert at.shape == () and at == 67
    assert found.refusal(np.asarray(97, np.int32)) is None
    assert found.refusal(np.asarray(68, np.int32)) is not None


def test_indices_without_a_known_search_are_exact() -> None:
    workload = function(
        'x: T.Buffer((4000,), "float32"), out: T.Buffer((4000,), "int32")',
        """
for i in range(4000):
    with T.sblock("out"):
        vi = T.axis.spatial(4000, i)
        out[vi] = T.Select(x[vi] * T.float32(3) > T.float32(1), vi, 2)
""",
    )
    found = Verified(workload, random((4000,)))
    (out,) = (value.copy() for value in found.right)
    assert found.refusal(out) is None
    out[100] += 1
    assert "1 of 4000" in (found.refusal(out) or "")


def test_an_integer_beside_a_sum_of_narrow_numbers_is_exact() -> None:
    workload = function(
        'x: T.Buffer((64, 256), "float16"), n: T.Buffer((64,), "int32"), '
        's: T.Buffer((64,), "float16"), m: T.Buffer((64,), "int32")',
        """
for i, k in T.grid(64, 256):
    with T.sblock("s"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            s[vi] = T.float16(0)
            m[vi] = 0
        s[vi] = s[vi] + x[vi, vk]
        m[vi] = m[vi] + n[vi] * vk
""",
    )
    numbers = np.random.default_rng(0).integers(0, 128, 64).astype(np.int32)
    found = Verified(workload, random((64, 256), "float16"), numbers)
    total, count = found.right
    assert found.refusal(total, count) is None
    assert "64 of 64" in (found.refusal(total, count + 100) or "")
    one_off = count.copy()
    one_off[0] += 1
    assert "1 of 64" in (found.refusal(total, one_off) or "")
    assert found.refusal((total * np.float16(1.01)).astype(np.float16), count) is None


def test_each_output_has_the_length_of_its_own_sums() -> None:
    x = te.placeholder((32, 1000), name="x")
    k = te.reduce_axis((0, 1000), name="k")
    total = te.compute((32,), lambda i: te.sum(x[i, k], axis=k), name="total")
    twice = te.compute(x.shape, lambda i, j: x[i, j] * 2.0, name="twice")
    scaled = te.compute((32,), lambda i: total[i] / 1000.0, name="scaled")
    m = te.reduce_axis((0, 32), name="m")
    all_of_them = te.compute((1,), lambda _: te.sum(scaled[m], axis=m), name="all")
    workload = from_te([x, twice, scaled, all_of_them])
    found = Verified(workload, random((32, 1000)))
    assert [one.reduction_length for one in found.numerics] == [1, 1000, 1032]


def rounded(text: str) -> Workload:
    """Make a program that gives small integers or truth values from 4,000 numbers."""
    dtype, _, value = text.partition(": ")
    return function(
        f'x: T.Buffer((4000,), "float32"), out: T.Buffer((4000,), "{dtype}")',
        f"""
for i in range(4000):
    with T.sblock("out"):
        vi = T.axis.spatial(4000, i)
        out[vi] = {value}
""",
    )


@pytest.mark.parametrize(
    "text",
    [
        'int8: T.Cast("int8", T.round(x[vi] * T.float32(12.5)))',
        'int8: T.Cast("int8", T.max(T.min(x[vi] + x[vi], T.float32(1)), T.float32(0)))',
        'int32: T.Cast("int32", x[vi] * x[vi] > T.float32(0.5))',
        "int32: T.Select(x[vi] * x[vi] > T.float32(0.5), 4, 3)",
        'int32: T.Cast("int32", x[vi] * T.float32(50)) % 7',
        "bool: x[vi] * x[vi] > T.float32(0.5)",
        "bool: T.if_then_else(x[vi] * x[vi] > T.float32(0.5), T.bool(True), vi < 7)",
    ],
)
def test_few_of_the_numbers_that_were_rounded_may_be_off_by_one(text: str) -> None:
    found = Verified(rounded(text), random((4000,)))
    (out,) = (value.copy() for value in found.right)
    few, many = out.copy(), out.copy()
    step = np.logical_not if out.dtype == np.bool_ else (lambda value: value + 1)
    few[:3], many[:400] = step(out[:3]), step(out[:400])
    assert found.refusal(few) is None
    assert "400 of 4000" in (found.refusal(many) or "")


def test_few_counts_of_numbers_that_were_rounded_may_be_off_by_one() -> None:
    workload = function(
        'x: T.Buffer((4000,), "float32"), n: T.Buffer((500,), "int32"), '
        'm: T.Buffer((500,), "int32")',
        """
for i in range(500):
    with T.sblock("zero"):
        vi = T.axis.spatial(500, i)
        n[vi] = 0
        m[vi] = 0
for i in range(4000):
    with T.sblock("count"):
        vi = T.axis.opaque(4000, i)
        n[T.Cast("int32", (x[vi] + T.float32(1)) * T.float32(249))] += 1
        if x[vi] * x[vi] > T.float32(0.5):
            m[vi % 500] = m[vi % 500] + 1
""",
    )
    found = Verified(workload, random((4000,)))
    bins, large = found.right
    assert bins.sum() == 4000 and large.max() > 1
    off, far = bins.copy(), bins.copy()
    off[3] += 1
    far[3] += 2
    assert found.refusal(off, large) is None and found.refusal(far, large) is not None
    off = large.copy()
    off[3] += 1
    assert found.refusal(bins, off) is None and found.refusal(bins, large + 1) is not None


@pytest.mark.parametrize(
    "text",
    [
        'int8: T.Cast("int8", T.round(x[vi]))',
        "int32: T.Select(x[vi] > T.float32(0.5), 4, 3)",
        "bool: T.max(x[vi], T.float32(0)) > T.float32(0.5)",
    ],
)
def test_what_no_arithmetic_rounded_is_exact(text: str) -> None:
    found = Verified(rounded(text), random((4000,)))
    (out,) = (value.copy() for value in found.right)
    out[5] = not out[5] if out.dtype == np.bool_ else out[5] + 1
    assert "1 of 4000" in (found.refusal(out) or "")
