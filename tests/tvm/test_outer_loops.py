"""Programs that were not scheduled, with their outermost loops in parallel."""

from __future__ import annotations

import numpy as np
import pytest
from tvm import tirx

from schedlang import workloads
from schedlang.tvm.analysis.races import with_parallel_loops
from schedlang.tvm.codegen import compile_for_host
from schedlang.tvm.values import found_in
from schedlang.workloads.workload import Workload
from tests.targets.programs import from_body

TOTAL = """
for k in range(4096):
    with T.sblock("Y"):
        vk = T.axis.remap("R", [k])
        with T.init():
            B[0, 0] = T.float32(0)
        B[0, 0] = B[0, 0] + A[vk // 64, vk % 64]
"""
SHIFTED = """
for i, j in T.grid(63, 64):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi + 1, vj] = C[vi, vj] + A[vi, vj]
"""
RANDOM = """
for i, j in T.grid(64, 64):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = T.Cast("float32", T.call_extern("int32", "rand"))
"""


def parallel_loops(workload: Workload) -> int:
    made = with_parallel_loops(workload.mod)
    assert made is not None
    loops = found_in(made["main"].body, tirx.For)
    return sum(loop.kind == tirx.ForKind.PARALLEL for loop in loops)


@pytest.mark.parametrize(
    ("workload", "count"),
    [
        (workloads.matmul(37, 19, 41), 1),
        (workloads.conv2d(9, 11, 3, 5, 3, 2, 1), 2),
        (workloads.softmax(23, 29), 4),
        (workloads.matmul(1, 64, 64), 1),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_results_are_the_same_to_the_last_bit(workload: Workload, count: int) -> None:
    assert parallel_loops(workload) == count
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(arg.shape).astype(arg.dtype) for arg in workload.args]
    results = []
    for mod in (workload.mod, with_parallel_loops(workload.mod)):
        arrays = [value.copy() for value in given]
        compile_for_host(mod)(*arrays)
        results.append(arrays)
    for one, other in zip(*results, strict=True):
        assert one.tobytes() == other.tobytes()


INSIDE = """
for i in range(64):
    for j in T.parallel(64):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] + B[vi, vj]
"""


@pytest.mark.parametrize("body", [TOTAL, SHIFTED, RANDOM, INSIDE])
def test_loops_that_may_race_or_are_parallel_inside_stay(body: str) -> None:
    assert with_parallel_loops(from_body(body)) is None
