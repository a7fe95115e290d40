"""A window of a program computes some elements of its outputs, and the same values."""

from __future__ import annotations

import numpy as np
import pytest

from schedlang import workloads
from schedlang.targets import Target
from schedlang.targets.cpu.backend import CPUBackend
from schedlang.targets.measure.backend import Dataset
from schedlang.targets.measure.inputs import InputSource
from schedlang.targets.measure.learning import learn_windows
from schedlang.targets.measure.reference import learn_reference
from schedlang.tvm.analysis.partial_results import count_steps, window_of
from schedlang.tvm.codegen import CodeGenerator
from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload

TARGET = Target("cpu")


def script(signature: str, body: str) -> Workload:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return from_script(f"@T.prim_func(s_tir=True)\ndef f({signature}):\n{lines}\n", name="f")


TWO_PRODUCTS = script(
    'A: T.Buffer((48, 48), "float32"), D: T.Buffer((48, 48), "float32")',
    """
B = T.sblock_alloc_buffer((48, 48), "float32")
for i, j, k in T.grid(48, 48, 48):
    with T.sblock("B"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            B[vi, vj] = T.float32(0)
        B[vi, vj] += A[vi, vk] * A[vk, vj]
for i, j, k in T.grid(48, 48, 48):
    with T.sblock("D"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            D[vi, vj] = T.float32(0)
        D[vi, vj] += B[vi, vk] * A[vk, vj]
""",
)
IN_PLACE = script(
    'A: T.Buffer((4096,), "float32")',
    """
for i in T.serial(4096):
    with T.sblock("A"):
        vi = T.axis.spatial(4096, i)
        A[vi] = A[vi] + T.float32(1)
""",
)
TWO_OUTPUTS = script(
    'A: T.Buffer((4096,), "int32"), B: T.Buffer((4096,), "int32"), C: T.Buffer((512,), "bool")',
    """
for i in T.serial(4096):
    with T.sblock("B"):
        vi = T.axis.spatial(4096, i)
        B[vi] = A[vi] * 2
for i in T.serial(512):
    with T.sblock("C"):
        vi = T.axis.spatial(512, i)
        C[vi] = A[vi] > 3
""",
)
SUM = script(
    'A: T.Buffer((4096,), "float32"), B: T.Buffer((1,), "float32")',
    """
for i, k in T.grid(1, 4096):
    with T.sblock("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] += A[vk]
""",
)
# The second nest reads what the first one leaves.
UPDATED = script(
    'A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32")',
    """
for i in T.serial(4096):
    with T.sblock("first"):
        vi = T.axis.spatial(4096, i)
        B[vi] = A[vi]
for i in T.serial(4096):
    with T.sblock("second"):
        vi = T.axis.spatial(4096, i)
        B[vi] = B[vi] + A[4095 - vi]
""",
)
PARTS = {
    "matmul": (workloads.matmul(40, 50, 60), 10_000),
    "conv2d": (workloads.conv2d(14, 14, 8, 8), 60_000),
    "conv3d": (workloads.conv3d(4, 8, 8, 3, 8), 200_000),
    "softmax": (workloads.softmax(64, 64), 30_000),
    "two products": (TWO_PRODUCTS, 40_000),
    "in place": (IN_PLACE, 100),
    "two outputs": (TWO_OUTPUTS, 200),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_window_gives_a_part_of_the_results(name: str) -> None:
    workload, steps = PARTS[name]
    assert count_steps(workload.mod) > steps
    part = window_of(workload.mod, steps)
    assert part is not None and count_steps(part) <= steps
    backend = CPUBackend(CodeGenerator(TARGET.tvm_target()), TARGET.cpus)
    data = Dataset(backend, InputSource(workload.args, 0))
    whole = backend.compile(workload.mod)
    found = learn_reference(lambda: whole.entry(*data.tensors), data)
    program = backend.compile(part)
    values, written = learn_windows(lambda: program.entry(*data.tensors), data)
    right = found.results[0].expected
    for value, expected, mask in zip(values, right, written, strict=True):
        assert 0 < np.count_nonzero(mask) < mask.size
        np.testing.assert_allclose(value[mask], expected[mask], rtol=1e-4, atol=1e-5)


def test_the_ends_of_a_loop_are_in_the_windows() -> None:
    part = window_of(IN_PLACE.mod, 301)
    assert part is not None
    data = Dataset(
        backend := CPUBackend(CodeGenerator(TARGET.tvm_target()), TARGET.cpus),
        InputSource(IN_PLACE.args, 0),
    )
    program = backend.compile(part)
    _, [mask] = learn_windows(lambda: program.entry(*data.tensors), data)
    assert mask[0] and mask[-1] and not mask[1000] and mask[1950:2150].any()


@pytest.mark.parametrize("workload", [SUM, UPDATED], ids=["sum", "updated"])
def test_a_program_without_independent_elements_has_no_window(workload: Workload) -> None:
    assert window_of(workload.mod, 100) is None
