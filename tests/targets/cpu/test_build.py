from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm

from schedlang.errors import TargetError
from schedlang.targets import BuildError, Target, build_callable, export_library
from schedlang.workloads.workload import Workload
from tests.targets import programs
from tests.targets.programs import from_body, scheduled_matmul

RNG = np.random.default_rng(0)
A, B = (RNG.uniform(-1, 1, (64, 64)).astype(np.float32) for _ in "AB")


@pytest.fixture(scope="module")
def workload() -> Workload:
    return programs.matmul()


def test_a_built_program_takes_arrays_and_tensors(workload: Workload) -> None:
    run = build_callable(scheduled_matmul(workload), "cpu")
    out = np.empty((64, 64), np.float32)
    run(A, B, out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)
    tensor = tvm.runtime.tensor(np.zeros((64, 64), np.float32))
    run(tvm.runtime.tensor(A), B, tensor)
    np.testing.assert_array_equal(tensor.numpy(), out)


def test_inputs_may_be_read_only(workload: Workload) -> None:
    a = A.copy()
    a.flags.writeable = False
    out = np.empty((64, 64), np.float32)
    build_callable(workload.mod)(a, B, out)
    np.testing.assert_allclose(out, A @ B, rtol=1e-4, atol=1e-4)


def test_wrong_arguments_are_refused(workload: Workload) -> None:
    run = build_callable(workload.mod)
    out = np.empty((64, 64), np.float32)
    with pytest.raises(TypeError, match="takes 3 tensors, got 2"):
        run(A, B)
    with pytest.raises(TypeError, match="argument 1 is a list"):
        run(A, [1.0], out)
    with pytest.raises(ValueError, match="argument 0 is not C-contiguous"):
        run(A.T, B, out)
    with pytest.raises(Exception, match="(?i)shape|mismatch|expect"):
        run(A[:32].copy(), B, out)


def test_a_library_is_loaded_by_tvm(workload: Workload, tmp_path: Path) -> None:
    path = export_library(scheduled_matmul(workload), "cpu", tmp_path / "matmul.so")
    out = tvm.runtime.tensor(np.zeros((64, 64), np.float32))
    tvm.runtime.load_module(str(path))["main"](tvm.runtime.tensor(A), tvm.runtime.tensor(B), out)
    np.testing.assert_allclose(out.numpy(), A @ B, rtol=1e-4, atol=1e-4)


def test_what_cannot_be_built_says_why(workload: Workload, tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="reduce_combiner"):
        build_callable(from_body(programs.UNBUILDABLE))
    with pytest.raises(BuildError, match="cannot write"):
        export_library(workload.mod, "cpu", tmp_path / "no" / "folder" / "a.so")
    other = "skylake-avx512" if Target("cpu").mcpu != "skylake-avx512" else "znver4"
    with pytest.raises(TargetError, match=r"measure on (that|such a) machine"):
        build_callable(workload.mod, Target("x86/avx2", machine=other))
