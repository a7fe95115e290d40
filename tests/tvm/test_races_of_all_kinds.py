"""Concurrent loops: symbolic extents, calls of functions, lanes of vectors, threads of GPUs."""

from __future__ import annotations

import pytest

from schedlang.tvm.analysis.races import Determinism, determinism
from tests.targets.programs import from_body

TENSORS = ", ".join(
    (
        'A: T.Buffer((4096,), "float32"), M: T.Buffer((64, 64), "float32")',
        'I: T.Buffer((4096,), "int32"), C: T.Buffer((4096,), "float32")',
        'D: T.Buffer((64, 64), "float32")',
    )
)
PROVEN = Determinism(proven=True)

SYMBOLIC_APART = {
    "rows": "for i in T.parallel(n):\n    for j in range(m):\n        D[i, j] = D[i, j] + X[i, j]",
    "fused": "for t in T.parallel(n * m):\n    D[t // m, t % m] = X[t // m, t % m]",
    "tiles": """
for t in T.parallel((n + 7) // 8 * ((m + 15) // 16)):
    for i, j in T.grid(8, 16):
        if t // ((m + 15) // 16) * 8 + i < n and t % ((m + 15) // 16) * 16 + j < m:
            D[t // ((m + 15) // 16) * 8 + i, t % ((m + 15) // 16) * 16 + j] = X[0, 0]
""",
    "in one row": """
for i in T.parallel(n):
    for j in range(m):
        R[i * m + j] = X[i, j]
""",
    "in one row, in tiles": """
for o in T.parallel(n):
    for i, j in T.grid(4, m):
        R[(o * 4 + i) * m + j] = X[i, j]
""",
}
SYMBOLIC_RACES = {
    "rows that overlap": """
for i in T.parallel(n):
    for j in range(m + 1):
        R[i * m + j] = X[i, j]
""",
    "a quotient alone": "for t in T.parallel(n * m):\n    D[t // m, 0] = X[t // m, t % m]",
    "a remainder alone": "for t in T.parallel(n * m):\n    D[0, t % m] = X[t // m, t % m]",
    "by different numbers": "for t in T.parallel(n * m):\n    D[t // m, t % n] = X[t // m, t % m]",
    "stored in a row and read in the next one": """
for i in T.parallel(n - 1):
    for j in range(m):
        R[i * m + j] = R[i * m + m + j]
""",
    "a narrow type": """
for i in T.parallel(n):
    R[T.Cast("int32", T.Cast("uint8", i)) + m] = X[i, 0]
""",
    "bits of a parameter": """
for i in T.parallel(n):
    for j in range(m):
        R[i * m + T.bitwise_xor(j, m)] = X[i, j]
""",
    "rows from the end to the start": """
for i in T.parallel(n):
    for j in range(m):
        R[i * m - j] = X[i, j]
        R[i * m + j] = X[i, j]
""",
}
SYMBOLIC = ", ".join(
    (
        "n: T.int32, m: T.int32",
        'X: T.Buffer((n, m), "float32"), D: T.Buffer((n, m), "float32")',
        'R: T.Buffer((n * m,), "float32")',
    )
)


@pytest.mark.parametrize("name", SYMBOLIC_APART)
def test_loops_of_symbolic_extents_that_are_apart_are_accepted(name: str) -> None:
    assert determinism(from_body(SYMBOLIC_APART[name], SYMBOLIC)) == PROVEN


@pytest.mark.parametrize("name", SYMBOLIC_RACES)
def test_loops_of_symbolic_extents_that_may_meet_are_refused(name: str) -> None:
    assert determinism(from_body(SYMBOLIC_RACES[name], SYMBOLIC)).race is not None


CALLS = {
    "of numbers": 'for i in T.parallel(64):\n    T.evaluate(T.call_extern("int32", "work", i))',
    "packed": 'for i in T.parallel(64):\n    T.evaluate(T.call_packed("work", i))',
    "of what its block says": """
for i in T.parallel(64):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        T.reads(A[vi])
        T.writes(C[vi])
        T.evaluate(T.call_extern("int32", "work", C.access_ptr("w"), A.access_ptr("r")))
""",
    "of a part that its block matches": """
for i in T.parallel(64):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        T.reads(A[vi])
        T.writes(D[vi, 0:64])
        row = T.match_buffer(D[vi, 0:64], (64,), offset_factor=1)
        T.evaluate(T.call_extern("int32", "work", row.access_ptr("w")))
""",
}


@pytest.mark.parametrize("name", CALLS)
def test_of_functions_it_is_known_what_they_are_passed(name: str) -> None:
    assert determinism(from_body(CALLS[name], TENSORS)) == Determinism(proven=False)


LANES_THAT_MEET = {
    "neighbours": "for i in T.vectorized(8):\n    C[i + 1] = C[i] + A[i]",
    "sums": "for i in T.vectorized(8):\n    C[0] = C[0] + A[i]",
    "sums by index": "for i in T.vectorized(8):\n    C[I[i]] = C[I[i]] + A[i]",
    "two stores": "for i in T.vectorized(8):\n    C[i] = A[i]\n    C[i + 1] = A[i + 8]",
    "masked": """
for i in T.vectorized(8):
    C[T.bitwise_and(i, 3)] = C[T.bitwise_and(i, 3)] + A[i]
""",
    "inside of a parallel loop": """
for o in T.parallel(8):
    for i in T.vectorized(8):
        D[o, 0] = D[o, 0] + M[o, i]
""",
}
LANES_APART = {
    "own elements": "for i in T.vectorized(8):\n    C[i] = C[i] + A[i]",
    "pairs": """
for i in T.vectorized(8):
    C[T.bitwise_xor(i, 1)] = C[T.bitwise_xor(i, 1)] + A[i]
""",
    "one after the other": "for i in T.vectorized(8):\n    C[I[i]] = A[i]",
    "far apart": "for i in T.vectorized(8):\n    C[i + 8] = C[i] + A[i]",
}


@pytest.mark.parametrize("name", LANES_THAT_MEET)
def test_lanes_that_are_not_proven_apart_are_refused(name: str) -> None:
    race = determinism(from_body(LANES_THAT_MEET[name], TENSORS)).race
    assert race is not None and "run in the lanes of a vector" in race


@pytest.mark.parametrize("name", LANES_APART)
def test_lanes_that_are_apart_are_accepted(name: str) -> None:
    assert determinism(from_body(LANES_APART[name], TENSORS)) == PROVEN


THREADS = """
for b in T.thread_binding(64, thread="blockIdx.x"):
    for t in T.thread_binding(8, thread="threadIdx.x"):
        {}
"""
THREADS_THAT_MEET = {
    "masked": "C[T.bitwise_and(b * 8 + t, 255)] = A[b * 8 + t]",
    "shifted": "C[T.shift_right(b * 8 + t, 1)] = A[b * 8 + t]",
    "chosen": "C[T.if_then_else(t < 4, t, 4) + b * 8] = A[b * 8 + t]",
    "sums across blocks": "C[t] = C[t] + A[b * 8 + t]",
    "neighbours": "C[b * 8 + t] = C[b * 8 + t + 1]",
}
THREADS_APART = {
    "own elements": "C[b * 8 + t] = A[b * 8 + t]",
    "transposed": "D[t * 8 + b % 8, b // 8] = A[b * 8 + t]",
    "pairs": "C[T.bitwise_xor(b * 8 + t, 1)] = A[b * 8 + t]",
    "tiles that overlap": "C[T.min(b * 8, 500) + t] = A[T.min(b * 8, 500) + t]",
}


@pytest.mark.parametrize("name", THREADS_THAT_MEET)
def test_threads_of_a_gpu_that_are_not_proven_apart_are_refused(name: str) -> None:
    race = determinism(from_body(THREADS.format(THREADS_THAT_MEET[name]), TENSORS)).race
    assert race is not None and "run in threads of the GPU" in race


@pytest.mark.parametrize("shape, place", [("1,", "0"), ("", "()")])
def test_threads_may_add_up_what_their_block_reduces(shape: str, place: str) -> None:
    body = f"""
for k in T.thread_binding(64, thread="threadIdx.x"):
    with T.sblock("C"):
        vk = T.axis.reduce(64, k)
        with T.init():
            C[{place}] = T.float32(0)
        C[{place}] = C[{place}] + A[vk]
"""
    tensors = f'A: T.Buffer((64,), "float32"), C: T.Buffer(({shape}), "float32")'
    assert determinism(from_body(body, tensors)).race is None
    blocks = determinism(from_body(body.replace("threadIdx", "blockIdx"), tensors)).race
    assert blocks is not None and "run in threads of the GPU and update" in blocks


@pytest.mark.parametrize("name", THREADS_APART)
def test_threads_of_a_gpu_that_are_apart_are_accepted(name: str) -> None:
    assert determinism(from_body(THREADS.format(THREADS_APART[name]), TENSORS)).race is None
