"""The generated CUDA C++ of right programs, run on the CPU, gives the right numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te

import schedlang as sl
from schedlang.lab.emulator import EmulationError
from schedlang.targets.cuda import emulate
from tests.lab.emulator.programs import (
    needs_compiler,
    shared_product,
    softmax,
    warp_product,
)

pytestmark = needs_compiler


def assert_right(program: Any, **options: Any) -> None:
    """No faults, and the outputs are those of the unscheduled program."""
    found = emulate(program, **options)
    assert found.faults == () and found.verified is True


def test_an_unscheduled_workload_runs_on_default_threads() -> None:
    assert_right(sl.workloads.matmul(20, 17, 9))


def test_bfloat16_inside_and_out() -> None:
    a = te.placeholder((50,), "bfloat16", "A")
    b = te.compute((50,), lambda i: te.sigmoid(a[i]), "B")
    program = sl.workloads.from_te([a, b])
    assert_right(program)
    assert emulate(program, orders=1).outputs[0].dtype == "bfloat16"


def test_shared_memory_and_barriers() -> None:
    assert_right(shared_product(), orders=3)


def test_several_kernels_with_shuffles() -> None:
    assert_right(softmax(), orders=3)


@pytest.mark.parametrize(
    ("read", "kept", "transposed", "scope"),
    [
        ("float16", "float32", False, "shared.dyn"),
        ("float16", "float16", True, "shared"),
        ("int8", "int32", False, "shared"),
        ("int8", "int32", True, "shared"),
    ],
)
def test_products_of_warps(read: str, kept: str, transposed: bool, scope: str) -> None:
    assert_right(warp_product(read, kept, transposed, scope, 128 if read == "int8" else 64))


def test_given_inputs_and_outputs() -> None:
    program = shared_product(16)
    one, other = np.full((16, 16), 2.0, np.float32), np.full((16, 16), 3.0, np.float32)
    found = emulate(program, [one, other], orders=1)
    assert found.verified
    np.testing.assert_array_equal(found.outputs[0], np.full((16, 16), 96.0, np.float32))


def test_without_a_workload_nothing_is_compared() -> None:
    found = emulate(shared_product(16).mod, orders=1)
    assert found.verified is None and found.faults == () and len(found.outputs) == 1


def test_what_takes_too_long_is_refused_at_once() -> None:
    with pytest.raises(EmulationError, match=r"1.4e\+11 operations.*seconds=120.*smaller shape"):
        emulate(sl.workloads.matmul(4096, 4096, 4096))
