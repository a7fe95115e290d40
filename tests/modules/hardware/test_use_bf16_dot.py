"""``UseBF16Dot``: the program, its machine code, how exact it is, and where it does nothing."""

from __future__ import annotations

import functools
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import schedlang as sl
from schedlang.analysis.intrinsics import host_features
from schedlang.modules.cpu.dot_products import UseBF16Dot
from schedlang.targets import build_callable, export_library
from schedlang.tvm.program import to_json
from tests.modules.dot_products import (
    assert_in_registers,
    assert_right_numbers,
    machine_code,
    product,
)
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled

DTYPES = ("bfloat16", "bfloat16", "float32")
needs_bf16 = pytest.mark.skipif(
    "avx512bf16" not in host_features(), reason="this CPU has no AVX-512 BF16"
)
use_bf16_dot = UseBF16Dot(features={"avx512bf16"})


@functools.cache
def small() -> sl.Workload:
    return product(16, 64, 32, DTYPES)


def test_the_program_before_and_after(golden: Golden) -> None:
    decisions = {"registers:C_o": (4, 2), "rows:C_o": (2, 2), "vectors:C_o": (2, 1)}
    assert_golden(golden, "use_bf16_dot", sampled(small(), use_bf16_dot, decisions=decisions))


@pytest.mark.parametrize("tile", [(8, 2), (4, 4)], ids=str)
def test_accumulators_stay_in_registers(tile: tuple[int, int]) -> None:
    sch = sampled(product(64, 128, 64, DTYPES), use_bf16_dot, decisions={"registers:C_o": tile})
    assembly = machine_code(sch.mod)
    assert_in_registers(assembly, "vdpbf16ps", tile[0] * tile[1])
    assert "schedlang_dot" not in assembly  # the function that holds the instruction is inlined


def test_the_packed_operand_stays_in_bfloat16() -> None:
    """TVM turns bfloat16 buffers between blocks into float32 where it can."""
    sch = sampled(product(16, 64, 512, DTYPES), use_bf16_dot)
    assembly = machine_code(sch.mod)
    assert f"${64 * 512 * 2}, %e" in assembly
    assert f"${64 * 512 * 4}, %e" not in assembly


@needs_bf16
@pytest.mark.parametrize("layout", ["kj", "jk", "packed"])
@pytest.mark.parametrize("batch", [0, 3])
def test_the_numbers(layout: str, batch: int) -> None:
    for seed in range(2):
        workload = product(24, 48, 40, DTYPES, layout, batch, depth=2)
        assert_right_numbers(sampled(workload, use_bf16_dot, seed=seed))


@needs_bf16
def test_it_is_as_exact_as_float32() -> None:
    """Products of bfloat16 are exact in float32: only the sums are rounded, to float32."""
    workload = product(32, 64, 512, DTYPES)
    rng = np.random.default_rng(0)
    a = rng.uniform(-1, 1, (32, 512)).astype(ml_dtypes.bfloat16)
    b = rng.uniform(-1, 1, (512, 64)).astype(ml_dtypes.bfloat16)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    errors = []
    for mod in (sampled(workload, use_bf16_dot).mod, workload.mod):
        out = np.zeros((32, 64), np.float32)
        build_callable(mod)(a, b, out)
        errors.append(float(np.abs(out - exact).max()))
    assert errors[0] <= 2 * errors[1]


@needs_bf16
def test_numbers_that_are_too_small_are_zero() -> None:
    a = np.full((16, 32), 1e-30, ml_dtypes.bfloat16)
    b = np.full((32, 64), 1e-10, ml_dtypes.bfloat16)
    out = np.ones((16, 64), np.float32)
    build_callable(sampled(small(), use_bf16_dot).mod)(a, b, out)
    assert (out == 0).all()


@needs_bf16
def test_a_library_of_it_runs_elsewhere(tmp_path: Path) -> None:
    """Nothing in it refers to schedlang or to the function that was inlined."""
    path = export_library(sampled(small(), use_bf16_dot).mod, "cpu", tmp_path / "dot.so")
    code = f"import sys, tvm; tvm.runtime.load_module({str(path)!r})['main']; " + (
        "assert not [name for name in sys.modules if name.startswith('schedlang')]"
    )
    assert errors_of(code, tmp_path) == ""


def errors_of(code: str, folder: Path) -> str:
    """Return what a fresh Python says of its errors."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    return done.stderr if done.returncode else ""


def test_its_trace_runs_with_tvm_alone(tmp_path: Path) -> None:
    sch = sampled(small(), use_bf16_dot)
    script = sch.trace.as_tvm_python() + (
        "import sys\n"
        "assert not [name for name in sys.modules if name.startswith('schedlang')]\n"
        "same = tvm.ir.load_json(open('mod').read())\n"
        "tvm.ir.assert_structural_equal(sch.mod, same)\n"
    )
    (tmp_path / "mod").write_text(to_json(sch.mod))
    assert errors_of(script, tmp_path) == ""


@needs_bf16
def test_one_line_composes_it_with_the_default_space() -> None:
    space = sl.default_space("cpu").after("auto_inline", UseBF16Dot())
    for seed in range(3):
        sch = space.sample(small(), seed=seed)
        assert "schedlang_dot_16x2_bf16" in sch.mod.script()
        assert_right_numbers(sch)


@pytest.mark.parametrize(
    ("workload", "reason"),
    [
        (product(16, 64, 32, ("float32",) * 3), "float32 x float32 -> float32, not bfloat16 x bf"),
        (product(16, 40, 32, DTYPES), "40 columns are no multiple of 16"),
        (product(16, 64, 31, DTYPES), "31 steps are no multiple of 2"),
    ],
)
def test_where_it_has_nothing_to_do(workload: sl.Workload, reason: str) -> None:
    assert_not_applicable(use_bf16_dot, workload, "C", reason)


def test_another_cpu_is_not_applicable() -> None:
    assert_not_applicable(UseBF16Dot(features=()), small(), "C", "the CPU has no avx512bf16")


def test_features_are_a_set_of_names() -> None:
    with pytest.raises(sl.SpaceError, match=r"UseBF16Dot\(features='avx512'\): give a set"):
        sampled(small(), UseBF16Dot(features="avx512"))
