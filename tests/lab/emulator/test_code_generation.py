"""Programs that TVM's code generation for GPUs would get wrong, or refuse, without help."""

from __future__ import annotations

import pytest
from tvm import te

import schedlang as sl
from schedlang.targets.cuda import check, emulate
from tests.lab.emulator.programs import needs_compiler

pytestmark = needs_compiler

TARGET = sl.Target("cuda", arch="sm_90")


def test_vectors_from_memory_that_was_written_again() -> None:
    """Two rows go through the same shared memory, one after the other, without a loop."""
    a = te.placeholder((2, 128), "float32", "A")
    row = te.compute((2, 128), lambda i, j: a[i, j], "row")
    b = te.compute((2, 128), lambda i, j: row[i, j].astype("float16"), "B")
    sch = sl.Schedule(sl.workloads.from_te([a, b]))
    i, j = sch.get_loops(sch.get_block("B"))
    threads, lanes = sch.split(j, [32, 4])
    sch.bind(threads, "threadIdx.x")
    sch.vectorize(lanes)
    copy = sch.get_block("row")
    sch.compute_at(copy, i)
    sch.set_scope(copy, 0, "shared")
    threads, lanes = sch.split(sch.get_loops(copy)[-1], [32, 4])
    sch.bind(threads, "threadIdx.x")
    sch.vectorize(lanes)
    sch.unroll(i)
    sch.bind(sch.add_unit_loop(i), "blockIdx.x")
    found = emulate(sch)
    assert found.verified is True, found.faults


def two_products() -> sl.Workload:
    """(Q K^T) V in float16, as in attention without softmax."""
    q, k, v = (te.placeholder((32, 32), "float16", name) for name in "QKV")
    r, s = te.reduce_axis((0, 32), "r"), te.reduce_axis((0, 32), "s")
    scores = te.compute(
        (32, 32),
        lambda i, j: te.sum(q[i, r].astype("float32") * k[j, r].astype("float32"), axis=r),
        name="S",
    )
    half = te.compute((32, 32), lambda i, j: scores[i, j].astype("float16"), name="P")
    out = te.compute(
        (32, 32),
        lambda i, j: te.sum(half[i, s].astype("float32") * v[s, j].astype("float32"), axis=s),
        name="O",
    )
    return sl.workloads.from_te([q, k, v, out])


@pytest.mark.parametrize("ways", [("mma", "wmma"), ("wmma", "mma")], ids="-".join)
def test_two_products_on_tensor_cores_in_two_ways(ways: tuple[str, str]) -> None:
    sch = sl.Schedule(two_products(), seed=0)
    for block, way in zip("SO", ways, strict=True):
        sl.modules.UseTensorCore(via=[way], depths=[1])(sch, sch.get_block(block))
    found = emulate(sch)
    assert found.verified is True, found.faults


def test_vectors_of_one_bfloat16_that_is_repeated() -> None:
    """The initial value of sums: TVM refuses it on CPUs, see ``broadcasts``."""
    sch = sl.Schedule(sl.workloads.matmul(16, 32, 32, dtype="bfloat16"))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    outer, lanes = sch.split(j, [None, 4])
    sch.reorder(i, outer, k, lanes)
    sch.bind(i, "blockIdx.x")
    sch.bind(outer, "threadIdx.x")
    sch.vectorize(lanes)
    first = sch.decompose_reduction(block, k)
    sch.vectorize(sch.get_loops(first)[-1])
    report = check(sch, TARGET)
    assert report.ok, report.problems
    found = emulate(sch)
    assert found.verified is True, found.faults
