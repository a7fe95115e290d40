"""``vector_math``: what it replaces, how exact that is, and that later steps work on it."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from scipy.special import erf
from tvm import te, tirx

from schedlang.errors import InstructionError, NotApplicable, SpaceError
from schedlang.language.macros import MATH_FUNCTIONS, blocks_with_calls
from schedlang.language.schedule import Schedule, Trace
from schedlang.modules.cpu.finish import (
    parallel_vectorize_unroll,
    replace_math_calls,
    vector_math,
    vectorize_math,
)
from schedlang.modules.inlining import random_compute_location
from schedlang.spaces.space import Space
from schedlang.targets import Target, build_callable
from schedlang.tvm.program import structurally_equal
from schedlang.workloads import SFM, from_script, from_te
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import elementwise, matmul
from tests.modules.module_runs import Golden, assert_golden, sampled
from tests.properties.programs import assert_same_numbers

DOCUMENT = Path(__file__).parents[3] / "docs" / "vector_math.md"
EXACT: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: 10.0**x,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "tanh": np.tanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": erf,
}
# Where the results are neither constant nor out of range.
RANGES = {"exp": (-104, 89), "exp2": (-150, 129), "exp10": (-45.5, 38.6), "sigmoid": (-104, 17)}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 1e-45, -1e-45, 1.18e-38, 3.4e38, -3.4e38]
SPECIAL += [88.72283, 88.72284, -103.97, -103.98, 128, 127.99999, -149, -150, 38.53184, 0.9, 4]
COUNT = 1 << 20


def of_one_argument(name: str, dtype: str = "float32", count: int = 64) -> Workload:
    """B[i] = f(A[i])."""
    return computed(getattr(tirx, name), dtype, dtype, count)


def computed(function: Callable[[Any], Any], of: str, to: str, count: int = 64) -> Workload:
    """B[i] = function(A[i])."""
    a = te.placeholder((count,), of, "A")
    return from_te([a, te.compute((count,), lambda i: function(a[i]), name="B")])


def vectorized(workload: Workload, *, lanes: int = 16) -> Schedule:
    """``vector_math``, then the only loop vectorised."""
    sch = sampled(workload, vector_math)
    (loop,) = sch.get_loops("B")
    sch.vectorize(sch.split(loop, [None, lanes])[1])
    return sch


def inputs(name: str) -> np.ndarray:
    """Half of them over all bit patterns, half where the function is neither 0, 1 nor infinite."""
    rng = np.random.default_rng(0)
    step = 2**32 // (COUNT // 2)
    bits = np.arange(0, 2**32, step, dtype=np.uint64) + rng.integers(0, step, COUNT // 2)
    low, high = RANGES.get(name, (0.25, 4) if name.startswith("log") else (-12, 12))
    spread = bits.astype(np.uint32).view(np.float32)
    values = np.concatenate([spread, rng.uniform(low, high, COUNT // 2).astype(np.float32)])
    values[: len(SPECIAL)] = SPECIAL
    return values


def largest_error(got: np.ndarray, exact: np.ndarray) -> float:
    """In units in the last place; infinite where a NaN or an infinity is not where it should be."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(np.float32)
        same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
        exponent = np.floor(np.log2(np.abs(exact)))
        unit = np.exp2(np.clip(np.where(exact == 0, -126, exponent), -126, 127) - 23)
        error = np.where(same, 0, np.abs(got.astype(np.float64) - exact) / unit)
    return float(np.where(np.isnan(error), np.inf, error).max())


@functools.cache
def stated_bounds() -> dict[str, float]:
    """Function -> last column of the table in the documentation."""
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\d.]+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    return {name: float(bound) for name, bound in rows}


# -- what it does ----------------------------------------------------------------------------------


def test_the_program_before_and_after(golden: Golden) -> None:
    assert_golden(golden, "vector_math_softmax", sampled(SFM(4, 16), vector_math))


@pytest.mark.parametrize("name", [*EXACT])
def test_each_function_is_replaced_by_arithmetic(name: str) -> None:
    sch = sampled(of_one_argument(name), vector_math(functions=[name]))
    assert f"T.{name}(" in sch.workload.mod.script()
    assert f"T.{name}(" not in sch.mod.script()
    assert not blocks_with_calls(sch, MATH_FUNCTIONS)


def test_initial_values_branches_and_nested_calls_are_replaced() -> None:
    workload = from_script(
        """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((16, 16), 'float32'), B: T.Buffer((16, 16), 'float32')):
    for i, j, k in T.grid(16, 16, 16):
        with T.sblock("B"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                B[vi, vj] = T.exp(A[vi, vj])
            B[vi, vj] = B[vi, vj] + T.if_then_else(
                vk < vj,
                T.tanh(A[vk, vj]),
                T.Select(vk < 4, T.erf(A[vk, vj]), T.exp(T.sigmoid(A[vk, vj]))),
            )
""",
        "branches",
    )
    sch = sampled(workload, vector_math)
    assert not re.search(r"T\.(exp|tanh|erf|sigmoid)\(", sch.mod.script())
    i, _, k = sch.get_loops("B")
    sch.reorder(i, k, sch.get_loops("B")[1])
    sch.vectorize(sch.get_loops("B")[-1])
    init = sch.decompose_reduction("B", k)
    sch.vectorize(sch.get_loops(init)[-1])
    assert_same_numbers(sch.mod, workload, "branches")


def test_division_only_where_a_row_shares_the_divisor() -> None:
    workload = from_script(
        """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8, 16), 'float32'), low: T.Buffer((8,), 'float32'),
         wide: T.Buffer((16,), 'float32'), B: T.Buffer((8, 16), 'float32')):
    for i, j in T.grid(8, 16):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] / (low[vi] + 3.0) + A[vi, vj] / (wide[vj] + 3.0) + A[vi, vj] / 8.0
""",
        "quotients",
    )
    sch = sampled(workload, vector_math(functions=["division"]))
    text = sch.mod.script()
    assert "A[vi, vj] * (T.float32(1.0) / (low[vi] + T.float32(3.0)))" in text
    assert "A[vi, vj] / (wide[vj] + T.float32(3.0))" in text
    assert "A[vi, vj] * T.float32(0.125)" in text
    assert_same_numbers(sch.mod, workload, "quotients")
    with pytest.raises(NotApplicable):
        vector_math(sch, functions=["division"])


def test_one_block_and_one_function_by_hand() -> None:
    sch = Schedule(SFM(4, 16))
    replace_math_calls(sch, sch.get_block("exponent"), ["tanh"])
    assert structurally_equal(sch.mod, sch.workload.mod)
    replace_math_calls(sch, "exponent", ["exp"])
    assert "T.exp" not in sch.mod.script() and "/ row_sum" in sch.mod.script()
    again = Trace.from_json(sch.trace.to_json()).replay(sch.workload)
    assert structurally_equal(again.mod, sch.mod)
    assert "replace_math_calls(sch, b" in sch.trace.as_python()


def test_flattening_keeps_it_and_a_trace_of_tvm_cannot() -> None:
    sch = sampled(SFM(4, 16), vector_math)
    flat = sch.trace.flattened()
    assert [i.kind.name for i in flat.instructions].count("replace_math_calls") == 2
    assert structurally_equal(flat.replay().mod, sch.mod)
    with pytest.raises(SpaceError, match=r"replace_math_calls\(.*\): TVM has no such primitive"):
        sch.trace.to_tvm_trace(strict=True)


# -- where it does not apply -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "workload",
    [
        elementwise(),
        matmul(),
        of_one_argument("exp", "float64"),
        of_one_argument("exp", "bfloat16"),
        of_one_argument("sqrt"),
        computed(lambda x: tirx.exp(x).astype("int8"), "float32", "int8"),
        computed(lambda x: tirx.exp(x).astype("bfloat16"), "float32", "bfloat16"),
        computed(lambda x: tirx.exp(x.astype("float32") + 1.0), "bfloat16", "float32"),
    ],
    ids=[
        "times 2",
        "matmul",
        "float64",
        "bfloat16",
        "sqrt",
        "to int8",
        "to bfloat16",
        "of bfloat16",
    ],
)
def test_not_applicable(workload: Workload) -> None:
    with pytest.raises(NotApplicable, match="no block calls such a function in float32"):
        vector_math(Schedule(workload))
    assert not Space([vector_math]).sample(workload).trace.instructions


def test_what_becomes_an_integer_is_left_to_libm() -> None:
    def function(x: Any) -> Any:
        return tirx.tanh(x) + tirx.exp(x + 3).astype("int32").astype("float32")

    sch = vectorized(computed(function, "float32", "float32"))
    assert "T.exp(" in sch.mod.script() and "T.tanh(" not in sch.mod.script()
    assert_same_numbers(sch.mod, sch.workload, "integer")


def test_a_deep_nest_is_left_to_libm() -> None:
    def nest(x: Any) -> Any:
        for _ in range(5):
            x = tirx.tanh(x)
        return x

    sch = vectorized(computed(nest, "float32", "float32"))
    assert 1 <= sch.mod.script().count("T.tanh(") <= 3
    assert_same_numbers(sch.mod, sch.workload, "nest")


def test_bad_options() -> None:
    with pytest.raises(SpaceError, match=r"functions=\['exp', 'sine'\]\): there is no 'sine'"):
        sampled(SFM(4, 16), vector_math(functions=["exp", "sine"]))
    for wrong in ("exp", []):
        with pytest.raises(SpaceError, match="it takes a list of names"):
            sampled(SFM(4, 16), vector_math(functions=wrong))
    with pytest.raises(InstructionError, match="there is no vector form of 'sine'; known: exp"):
        replace_math_calls(Schedule(SFM(4, 16)), "exponent", ["sine"])
    with pytest.raises(InstructionError, match="has blocks inside .row_max"):
        replace_math_calls(Schedule(SFM(4, 16)), "root", ["exp"])


# -- numbers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["llvm", "host"])
@pytest.mark.parametrize("name", [*EXACT])
def test_the_error_is_within_the_stated_bound(name: str, target: str) -> None:
    sch = vectorized(of_one_argument(name, count=COUNT))
    values, results = inputs(name), np.zeros(COUNT, np.float32)
    if target == "host":
        build_callable(sch.mod, Target("cpu", cores=1))(values, results)
    else:  # the plainest machine of this kind: no fused multiply-add on x86
        written = tvm.runtime.tensor(results)
        tvm.compile(sch.mod, target="llvm")["main"](tvm.runtime.tensor(values), written)
        results = written.numpy()
    with np.errstate(all="ignore"):
        exact = EXACT[name](values.astype(np.float64))
    assert largest_error(results, exact) <= stated_bounds()[name]
    assert (np.signbit(results[:2]) == np.signbit(exact[:2])).all()


def test_the_error_of_a_shared_divisor() -> None:
    rng = np.random.default_rng(0)
    left, right = rng.uniform(1, 2, (2, COUNT)).astype(np.float32)
    product = left * (np.float32(1) / right)
    exact = left.astype(np.float64) / right
    assert 1 < largest_error(product, exact) <= stated_bounds()["division"]


def test_half_precision_is_computed_in_single() -> None:
    workload = of_one_argument("exp", "float16")
    sch = vectorized(workload)
    assert "T.exp" not in sch.mod.script()
    assert_same_numbers(sch.mod, workload, "float16")


# -- with other steps ------------------------------------------------------------------------------


@functools.cache
def exponential_sum() -> Workload:
    """B[i] = the sum of exp(A[i, :])."""
    a = te.placeholder((16, 64), "float32", "A")
    k = te.reduce_axis((0, 64), "k")
    return from_te([a, te.compute((16,), lambda i: te.sum(tirx.exp(a[i, k]), axis=k), name="B")])


@pytest.mark.parametrize("first", [True, False], ids=["before", "after"])
def test_with_rfactor(first: bool) -> None:
    sch = Schedule(exponential_sum())
    if first:
        vectorize_math(sch)
    _, k = sch.get_loops("B")
    _, lanes = sch.split(k, [None, 16])
    partial = sch.rfactor(lanes, 1)
    if not first:
        vectorize_math(sch)
    i, lane, k = sch.get_loops(partial)
    if sch.extent(lane) != 16:
        lane, k = k, lane
    sch.reorder(i, k, lane)
    sch.vectorize(lane)
    sch.unroll(k)
    sch.decompose_reduction(partial, k)
    assert "T.exp" not in sch.mod.script()
    assert_same_numbers(sch.mod, sch.workload, "rfactor")


def test_with_inlining_into_two_consumers() -> None:
    a = te.placeholder((16, 16), "float32", "A")
    b = te.compute((16, 16), lambda i, j: tirx.exp(a[i, j]), name="B")
    c = te.compute((16, 16), lambda i, j: b[i, j] * b[j, i], name="C")
    d = te.compute((16, 16), lambda i, j: b[i, j] + b[15 - i, j], name="D")
    sch = Schedule(from_te([a, c, d]))
    vectorize_math(sch)
    sch.compute_inline("B")
    for block in ("C", "D"):
        i, j = sch.get_loops(block)
        sch.parallel(i)
        sch.vectorize(j)
    assert_same_numbers(sch.mod, sch.workload, "inlined")


@pytest.mark.parametrize("shape", [(6, 32), (7, 33)], ids=str)
def test_in_a_space(shape: tuple[int, int]) -> None:
    workload = SFM(*shape)
    space = Space([random_compute_location, vector_math, parallel_vectorize_unroll(cores=2)])
    for seed in range(6):
        sch = space.sample(workload, seed=seed)
        assert "T.exp" not in sch.mod.script()
        assert structurally_equal(sch.trace.replay().mod, sch.mod)
        assert_same_numbers(sch.mod, workload, sch.trace)


def test_other_decisions_find_other_blocks() -> None:
    workload = SFM(6, 32)
    space = Space([random_compute_location, vector_math])
    apart = space.sample(workload, seed=0, decisions={"location:exponent": -1})
    inlined = apart.trace.with_decisions({"location:exponent": -2}).replay(misfit="repair")
    assert blocks_with_calls(inlined, MATH_FUNCTIONS) == []
    assert "exponent" not in [str(b) for b in re.findall(r'sblock\("(\w+)"', inlined.mod.script())]
    assert_same_numbers(inlined.mod, workload, inlined.trace)
