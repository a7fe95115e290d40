"""Which programs give the same results in every call, and which cannot."""

from __future__ import annotations

import pytest
from tvm.ir import IRModule

import schedlang as sl
from schedlang.tvm.analysis.races import Determinism, determinism
from schedlang.workloads import standard
from tests.modules.dot_products import product
from tests.modules.odd_programs import odd
from tests.modules.odd_updates import UPDATES
from tests.targets.programs import from_body

TENSORS = (
    'A: T.Buffer((64,), "float32"), I: T.Buffer((64,), "int32"), C: T.Buffer((64,), "float32")'
)
MATRIX = 'A: T.Buffer((8, 12), "float32"), C: T.Buffer((8, 12), "float32")'
NOTHING_KNOWN = Determinism(proven=False)
PROVEN = Determinism(proven=True)

APART = {
    "no threads": "for i in range(64):\n    C[0] = C[0] + A[i]",
    "one element each": "for i in T.parallel(64):\n    C[i] = A[i] * T.float32(2)",
    "one iteration": "for i in T.parallel(1):\n    C[0] = C[0] + A[i]",
    "updates of its own elements": """
for i in T.parallel(8):
    for j, k in T.grid(8, 3):
        C[i * 8 + j] = C[i * 8 + j] + A[k]
""",
    "from the end": "for i in T.parallel(64):\n    C[63 - i] = A[i]",
    "vectors": "for i in T.parallel(16):\n    C[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]",
    "threads inside of a serial loop": """
for i in range(8):
    for j in T.parallel(8):
        C[i * 8 + j] = A[j]
""",
    "threads that do the same again": """
for k in range(3):
    for i in T.parallel(64):
        C[i] = C[i] + A[k]
""",
    "a sum in memory of its own": """
for i in T.parallel(64):
    total = T.sblock_alloc_buffer((1,), "float32")
    total[0] = T.float32(0)
    for k in range(64):
        total[0] = total[0] + A[k]
    C[i] = total[0]
""",
    "two loops of one variable's name": """
for i in T.parallel(4):
    for j in range(16):
        C[i * 16 + j] = A[j]
    for j in range(8):
        C[i * 16 + j] = C[i * 16 + j + 8]
""",
    "the rest is cut off": """
for i in T.parallel(7):
    for j in range(10):
        if i * 10 + j < 64:
            C[i * 10 + j] = A[i * 10 + j]
""",
    "a block with an initial value": """
for i in T.parallel(64):
    for k in range(64):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                C[vi] = T.float32(0)
            C[vi] = C[vi] + A[vk]
""",
    "a part of the tensor": """
for i in T.parallel(16):
    with T.sblock("C"):
        vi = T.axis.spatial(16, i)
        T.reads(A[0:4])
        T.writes(C[vi * 4 : vi * 4 + 4])
        part = T.match_buffer(C[vi * 4 : vi * 4 + 4], (4,), offset_factor=1)
        for j in range(4):
            part[j] = A[j]
""",
    "a pure function": "for i in T.parallel(64):\n    C[i] = T.exp(A[i])",
    "a pure function of C's": """
for i in T.parallel(64):
    C[i] = T.call_pure_extern("float32", "expf", A[i])
""",
    "equal values": "for i in T.parallel(64):\n    C[0] = T.float32(1)",
    "under a condition": "for i in T.parallel(64):\n    if i < 1:\n        C[0] = C[0] + A[i]",
    "one value for all": "for i in T.parallel(64):\n    C[0] = T.max(C[0], T.float32(1))",
    "overlapping parts": """
for i in T.parallel(7):
    for j in range(16):
        C[i * 8 + j] = A[i * 8 + j]
""",
    "a block that does nothing": """
for i in T.parallel(64):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        T.where(False)
        C[0] = C[0] + A[vi]
""",
}
APART_IN_TWO_DIMENSIONS = {
    "tiles": """
for t in T.parallel(6):
    for i, j in T.grid(4, 4):
        C[t // 3 * 4 + i, t % 3 * 4 + j] = A[t // 3 * 4 + i, t % 3 * 4 + j]
""",
    "fused loops": "for t in T.parallel(96):\n    C[t // 12, t % 12] = A[t // 12, t % 12]",
}
UNKNOWN = {
    "a function of the C library": 'C[0] = T.float32(T.call_extern("int32", "rand"))',
    "a function that is said to be pure": """
C[0] = T.float32(T.call_pure_extern("int32", "rand"))
""",
}
RACES = {
    "a sum": "for i in T.parallel(64):\n    C[0] = C[0] + A[i]",
    "a sum in two parts": """
for t in T.parallel(2):
    for i in range(32):
        C[0] = C[0] + A[t * 32 + i]
""",
    "the largest": "for i in T.parallel(64):\n    C[0] = T.max(A[i], C[0])",
    "two iterations for each element": "for i in T.parallel(64):\n    C[i // 2] = C[i // 2] + A[i]",
    "a sum beside others": """
for i in T.parallel(8):
    for j in range(8):
        C[j] = C[j] + A[i * 8 + j]
""",
    "a block whose sum is in parallel": """
for i in range(64):
    C[i] = T.float32(0)
for i in range(64):
    for k in T.parallel(64):
        with T.sblock("C"):
            vi, vk = T.axis.remap("SR", [i, k])
            C[vi] = C[vi] + A[vk]
""",
    "shared memory for sums": """
W = T.sblock_alloc_buffer((1,), "float32")
W[0] = T.float32(0)
for i in T.parallel(64):
    for k in range(64):
        W[0] = W[0] + A[i] * A[k]
    C[i] = W[0]
""",
    "the sum of a local result": """
for i in T.parallel(64):
    total = T.sblock_alloc_buffer((1,), "float32")
    total[0] = A[i]
    C[0] = C[0] + total[0]
""",
}


DATA = ", ".join(
    (
        'A: T.Buffer((64,), "float32"), B: T.Buffer((64, 64), "float32")',
        'I: T.Buffer((64,), "int32"), K: T.Buffer((64, 64), "int32")',
        'C: T.Buffer((64,), "float32"), D: T.Buffer((64, 64), "float32")',
    )
)
# Iterations have the same element where elements of the inputs are equal.
RACES_THROUGH_DATA = {
    "a sum by index": "for i in T.parallel(64):\n    C[I[i]] = C[I[i]] + A[i]",
    "a count": "for i in T.parallel(64):\n    C[I[i]] = C[I[i]] + T.float32(1)",
    "the largest by index": "for i in T.parallel(64):\n    C[I[i]] = T.max(C[I[i]], A[i])",
    "blocks": """
for i in T.parallel(64):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        T.reads(C[0:64], I[vi], A[vi])
        T.writes(C[0:64])
        C[I[vi]] = C[I[vi]] + A[vi]
""",
    "an index through an index": "for i in T.parallel(64):\n    C[I[I[i]]] = C[I[I[i]]] + A[i]",
    "an index bound to a variable": """
for i in T.parallel(64):
    k: T.let[T.int32] = I[i]
    n: T.let[T.int32] = k % 32
    C[n] = C[n] + A[i]
""",
    "a new value bound to a variable": """
for i in T.parallel(64):
    k: T.let[T.int32] = I[i]
    c: T.let[T.float32] = C[k] + A[i]
    C[k] = c
""",
    "a new value in memory of its own": """
for i in T.parallel(64):
    c = T.sblock_alloc_buffer((1,), "float32")
    c[0] = C[I[i]] + A[i]
    C[I[i]] = c[0]
""",
    "an index in memory of its own": """
for i in T.parallel(64):
    k = T.sblock_alloc_buffer((1,), "int32")
    k[0] = I[i]
    C[k[0]] = C[k[0]] + A[i]
""",
    "an index gathered before": """
k = T.sblock_alloc_buffer((64,), "int32")
for i in range(64):
    k[i] = I[I[i]]
for i in T.parallel(64):
    C[k[i]] = C[k[i]] + A[i]
""",
    "an index by functions": """
for i in T.parallel(64):
    C[T.abs(I[i]) % 64] = C[T.abs(I[i]) % 64] + A[i]
    D[T.bitwise_and(I[i], 63), 0] = A[i]
""",
    "an index by a function of the C library": """
for i in T.parallel(64):
    C[T.call_pure_extern("int32", "abs", I[i])] = A[i]
""",
    "an index from floating-point numbers": """
for i in T.parallel(64):
    C[T.Cast("int32", A[i] * T.float32(8))] = A[i]
""",
    "negative indices": """
for i in T.parallel(64):
    C[T.if_then_else(I[i] < 0, I[i] + 64, I[i])] = A[i]
""",
    "rows by index": """
for i in T.parallel(64):
    for j in range(64):
        D[I[i], j] = D[I[i], j] + B[i, j]
""",
    "two loops of threads": """
for t in range(1):
    for i in T.parallel(8):
        for j in T.vectorized(8):
            C[I[i * 8 + j]] = C[I[i * 8 + j]] + A[i * 8 + j]
""",
    "the last of equals": "for i in T.parallel(64):\n    C[I[i]] = A[i]",
    "the last number": "for i in T.parallel(64):\n    D[I[i], 0] = T.Cast('float32', i)",
    "in bounds only": """
for i in T.parallel(64):
    if 0 <= I[i] and I[i] < 64:
        C[I[i]] = C[I[i]] + A[i]
""",
    "where the data say": """
for i in T.parallel(64):
    if A[i] > T.float32(0):
        C[I[i]] = A[i]
""",
    "the rest is cut off": """
for t in T.parallel(8):
    for i in range(9):
        if t * 9 + i < 64:
            C[I[t * 9 + i]] = C[I[t * 9 + i]] + A[t * 9 + i]
""",
    "a predicate": """
for i in T.parallel(72):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        T.where(i < 64)
        C[I[vi]] = C[I[vi]] + A[vi]
""",
    "lanes": "for i in T.vectorized(64):\n    C[I[i]] = C[I[i]] + A[i]",
    "lanes of threads": """
for i in T.parallel(64):
    for j in T.vectorized(64):
        D[i, K[i, j]] = D[i, K[i, j]] + B[i, j]
""",
}
MANY = (
    'A: T.Buffer((100000,), "float32"), I: T.Buffer((100000,), "int32"), '
    'C: T.Buffer((100000,), "float32")'
)
# Too many iterations to look at each.
RACES_IN_LONG_LOOPS = {
    "by index": "for i in T.parallel(100000):\n    C[I[i]] = C[I[i]] + A[i]",
    "one element": "for i in T.parallel(100000):\n    C[0] = C[0] + A[i]",
    "in a loop": """
for t in range(100000):
    for i in T.parallel(4):
        C[I[i]] = C[I[i]] + A[i]
""",
}
NO_RACE_THROUGH_DATA = {
    "read only": "for i in T.parallel(64):\n    C[i] = A[I[i]]",
    "a row of its own": """
for i in T.parallel(64):
    for j in range(64):
        D[i, K[i, j]] = D[i, K[i, j]] + B[i, j]
""",
    "a column of its own": """
for j in T.parallel(64):
    for i in range(64):
        D[I[i], j] = D[I[i], j] + B[i, j]
""",
    "a part of its own": """
for t in T.parallel(8):
    for i in range(8):
        C[t * 8 + I[i] % 8] = C[t * 8 + I[i] % 8] + A[i]
""",
    "the same value for the same index": "for i in T.parallel(64):\n    C[I[i]] = A[I[i]]",
    "one value": "for i in T.parallel(64):\n    C[I[i]] = T.float32(1)",
    "the larger of one value": "for i in T.parallel(64):\n    C[I[0]] = T.max(C[I[0]], A[0])",
    "the iteration that an input names": """
for i in T.parallel(64):
    if i == I[0]:
        C[I[0]] = C[I[0]] + A[i]
""",
    "one iteration only": """
for i in T.parallel(64):
    if i < 1:
        C[I[i]] = C[I[i]] + A[i]
""",
    "lanes that write one after the other": "for i in T.vectorized(64):\n    C[I[i]] = A[i]",
}
# Nothing shows that these race, and nothing that they do not.
NOT_PROVEN = {
    "the last one wins": "for i in T.parallel(64):\n    C[0] = A[i]",
    "the neighbour's element": "for i in T.parallel(63):\n    C[i] = C[i + 1] * T.float32(2)",
    "never called": """
if I[0] > 7:
    for i in T.parallel(64):
        C[0] = C[0] + A[i]
""",
    "iterations end early": """
for i in T.parallel(64):
    if i > 0:
        continue
    C[0] = C[0] + A[i]
""",
    "as often as the data say": """
for n in range(I[0]):
    for i in T.parallel(64):
        C[0] = C[0] + A[i]
""",
    "a part of the tensor that the data choose": """
for i in T.parallel(4):
    with T.sblock("C"):
        vi = T.axis.spatial(4, i)
        T.reads(A[0:64], I[0:64])
        T.writes(C[0:64])
        part = T.match_buffer(C[I[vi] : I[vi] + 4], (4,), offset_factor=1)
        C[vi] = A[vi]
        for j in range(4):
            part[j] = A[j]
""",
    "memory that iterations share": """
W = T.sblock_alloc_buffer((1,), "float32")
W[0] = T.float32(0)
for i in T.parallel(64):
    W[0] = A[i]
    C[i] = W[0]
""",
    "a permutation that it counts out": """
k = T.sblock_alloc_buffer((64,), "int32")
for i in range(64):
    k[i] = 63 - i
for i in T.parallel(64):
    C[k[i]] = C[k[i]] + A[i]
""",
    "indices moved apart": """
k = T.sblock_alloc_buffer((64,), "int32")
for i in range(64):
    k[i] = I[0] + i
for i in T.parallel(64):
    C[k[i]] = C[k[i]] + A[i]
""",
    "ranges from data": """
for i in T.parallel(63):
    for j in range(I[i], I[i + 1]):
        C[j] = C[j] + A[i]
""",
    "a sum that threads wait for": """
for i in T.parallel(64):
    T.evaluate(T.call_extern("int32", "lock"))
    C[I[i]] = C[I[i]] + A[i]
    T.evaluate(T.call_extern("int32", "unlock"))
""",
}


@pytest.mark.parametrize("name", RACES_THROUGH_DATA)
def test_indices_from_data_may_be_equal(name: str) -> None:
    found = determinism(from_body(RACES_THROUGH_DATA[name], DATA))
    assert found.race is not None
    assert found.race.endswith("where indices that the program reads are equal")


@pytest.mark.parametrize("name", RACES_IN_LONG_LOOPS)
def test_races_in_long_loops(name: str) -> None:
    assert determinism(from_body(RACES_IN_LONG_LOOPS[name], MANY)).race is not None


@pytest.mark.parametrize("name", NO_RACE_THROUGH_DATA)
def test_indices_from_data_that_no_two_iterations_share(name: str) -> None:
    assert determinism(from_body(NO_RACE_THROUGH_DATA[name], DATA)).race is None


@pytest.mark.parametrize("name", APART)
def test_iterations_that_are_apart(name: str) -> None:
    assert determinism(from_body(APART[name], TENSORS)) == PROVEN


@pytest.mark.parametrize("name", APART_IN_TWO_DIMENSIONS)
def test_iterations_that_are_apart_in_two_dimensions(name: str) -> None:
    assert determinism(from_body(APART_IN_TWO_DIMENSIONS[name], MATRIX)) == PROVEN


@pytest.mark.parametrize("name", UNKNOWN)
def test_nothing_is_known(name: str) -> None:
    assert determinism(from_body(UNKNOWN[name], TENSORS)) == NOTHING_KNOWN


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_what_is_not_proven_is_refused(name: str) -> None:
    found = determinism(from_body(NOT_PROVEN[name], DATA))
    assert found.race is not None and not found.proven


@pytest.mark.parametrize("name", RACES)
def test_races(name: str) -> None:
    found = determinism(from_body(RACES[name], TENSORS))
    assert not found.proven
    assert found.race is not None and "run in parallel and update the same elements" in found.race


def test_a_race_is_named() -> None:
    assert determinism(from_body(RACES["a sum"], TENSORS)).race == (
        "iterations of loop 'i' run in parallel and update the same elements of 'C'"
    )


@pytest.mark.parametrize("name", ["GMM", "C2D", "DEP", "SFM", "NRM", "T2D"])
def test_samples_of_the_default_space_cannot_race(name: str) -> None:
    space = sl.default_space(sl.Target("cpu", cores=2))
    workload = standard(name)[0]
    assert all(determinism(space.sample(workload, seed=seed).mod).proven for seed in range(3))


@pytest.mark.parametrize(
    "target", [sl.Target("cpu", cores=2), sl.Target("cuda", arch="sm_80")], ids=["cpu", "cuda"]
)
def test_samples_of_programs_that_scatter_do_not_race(target: sl.Target) -> None:
    space = sl.default_space(target)
    names = [name for name in UPDATES if "scatter" in name or "histogram" in name]
    assert len(names) >= 4
    for workload in (odd(name).workload for name in names):
        found = [determinism(space.sample(workload, seed=seed).mod) for seed in range(3)]
        assert [one.race for one in found] == [None] * 3, workload.name


THREADS = """
for b in T.thread_binding({}, thread="blockIdx.x"):
    for t in T.thread_binding({}, thread="threadIdx.x"):
        {}
"""
OF_A_GPU = {
    "sums by index": (8, 8, "C[I[b * 8 + t]] = C[I[b * 8 + t]] + A[b * 8 + t]", "'b'"),
    "sums by index in a block": (1, 64, "C[I[t]] = C[I[t]] + A[t]", "'t'"),
    "copies by index": (8, 8, "C[I[b * 8 + t]] = A[b * 8 + t]", "'b'"),
    "rows of their own": (64, 64, "D[b, K[b, t]] = D[b, K[b, t]] + B[b, t]", "'t'"),
    "elements of their own": (8, 8, "C[b * 8 + t] = A[I[b * 8 + t]]", None),
    "columns of their own": (1, 64, "D[I[0], t] = D[I[0], t] + B[0, t]", None),
}


@pytest.mark.parametrize("name", OF_A_GPU)
def test_threads_of_a_gpu_race_through_indices(name: str) -> None:
    blocks, threads, body, loop = OF_A_GPU[name]
    found = determinism(from_body(THREADS.format(blocks, threads, body), DATA))
    assert not found.proven
    assert found.race is None or loop is not None
    if loop is not None:
        assert found.race is not None
        assert found.race.startswith(f"iterations of loop {loop} run in threads of the GPU and ")


def test_intrinsics_are_pure() -> None:
    space = sl.default_space(sl.Target("x86/avx512_vnni"))
    space += sl.modules.UseVNNI(features=frozenset({"avx512vnni"}))
    workload = product(64, 128, 64, ("uint8", "int8", "int32"))
    mods: list[IRModule] = [space.sample(workload, seed=seed).mod for seed in range(4)]
    tensorised = [mod for mod in mods if "vpdpbusd" in mod.script()]
    assert tensorised and all(determinism(mod).proven for mod in tensorised)
