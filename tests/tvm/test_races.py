"""Concurrent loops: what is not proven to be apart is refused, and what is apart is accepted."""

from __future__ import annotations

import pytest

from schedlang.tvm.analysis.races import Determinism, determinism
from tests.targets.programs import from_body

TENSORS = ", ".join(
    (
        'A: T.Buffer((4096,), "float32"), M: T.Buffer((64, 64), "float32")',
        'I: T.Buffer((4096,), "int32"), U: T.Buffer((4096,), "uint8")',
        'C: T.Buffer((4096,), "float32"), D: T.Buffer((64, 64), "float32")',
    )
)
PROVEN = Determinism(proven=True)

RACES = {
    "column sums of a triangle": """
for i in T.parallel(64):
    for j in range(i + 1):
        C[j] = C[j] + M[i, j]
""",
    "rows of a triangle that overlap": """
for i in T.parallel(64):
    for j in range(i, 64):
        C[j] = M[i, j]
""",
    "an old value in a variable": """
for i in T.parallel(64):
    old: T.let[T.float32] = C[0]
    C[0] = old + A[i]
""",
    "an old value in memory of its own": """
for i in T.parallel(64):
    old = T.sblock_alloc_buffer((1,), "float32")
    old[0] = C[0]
    C[0] = old[0] + A[i]
""",
    "another name of the output": """
E = T.decl_buffer((4096,), "float32", data=C.data)
for i in T.parallel(64):
    C[0] = E[0] + A[i]
""",
    "another name of the output, stored": """
E = T.decl_buffer((4096,), "float32", data=C.data)
for i in T.parallel(64):
    E[i] = A[i]
    C[i + 1] = A[i + 1]
""",
    "another shape of the output": """
E = T.decl_buffer((64, 64), "float32", data=C.data)
for i in T.parallel(64):
    E[0, i] = A[i]
    C[i + 1] = A[i]
""",
    "a region of the output": """
for i in T.parallel(63):
    with T.sblock("C"):
        vi = T.axis.spatial(63, i)
        T.reads(A[vi])
        T.writes(C[vi : vi + 2])
        part = T.match_buffer(C[vi : vi + 2], (2,), offset_factor=1)
        part[0] = A[vi]
        part[1] = A[vi]
""",
    "as many terms as the iteration": """
for t in T.parallel(8):
    for j in range(1 + t):
        C[0] = C[0] + A[j]
""",
    "as many as the data say": """
for i in T.parallel(64):
    for j in range(I[i]):
        C[j] = C[j] + A[j]
""",
    "a condition on its own results": """
for i in T.parallel(64):
    if C[0] < A[i]:
        C[0] = A[i]
""",
    "a condition on the neighbour's results": """
for i in T.parallel(63):
    if C[i + 1] < A[i]:
        C[i] = A[i]
""",
    "masked": """
for i in T.parallel(512):
    C[T.bitwise_and(i, 255)] = C[T.bitwise_and(i, 255)] + A[i]
""",
    "masked copies": "for i in T.parallel(512):\n    C[T.bitwise_and(i, 255)] = A[i]",
    "low bits cleared": "for i in T.parallel(512):\n    C[T.bitwise_and(i, -2)] = A[i]",
    "bits set": "for i in T.parallel(512):\n    C[T.bitwise_or(i, 1)] = A[i]",
    "shifted": "for i in T.parallel(512):\n    C[T.shift_right(i, 1)] = A[i]",
    "shifted out": """
for i in T.parallel(512):
    C[T.Cast("int32", T.shift_left(T.Cast("uint8", i), T.uint8(1)))] = A[i]
""",
    "a narrow type": 'for i in T.parallel(512):\n    C[T.Cast("int32", T.Cast("uint8", i))] = A[i]',
    "a product that wraps": """
for i in T.parallel(512):
    C[T.bitwise_and(i * 1073741824, 4095)] = A[i]
""",
    "if_then_else": "for i in T.parallel(512):\n    C[T.if_then_else(i < 7, i, 7)] = A[i]",
    "if_then_else of sums": """
for i in T.parallel(512):
    C[T.if_then_else(i < 7, i, 7)] = C[T.if_then_else(i < 7, i, 7)] + A[i]
""",
    "select": "for i in T.parallel(512):\n    C[T.Select(i < 7, i, 3)] = A[i]",
    "if_then_else of data": """
for i in T.parallel(512):
    C[T.if_then_else(I[i] < 7, i, 7)] = A[i]
""",
    "minimum": "for i in T.parallel(512):\n    C[T.min(i, 500)] = A[i]",
    "maximum": "for i in T.parallel(512):\n    C[T.max(i, 4)] = A[i]",
    "floats": """
for i in T.parallel(512):
    C[T.Cast("int32", T.Cast("float32", i) * T.float32(0.5))] = A[i]
""",
    "floats of sums": """
for i in T.parallel(512):
    k: T.let[T.int32] = T.Cast("int32", T.floor(T.Cast("float32", i) / T.float32(3)))
    C[k] = C[k] + A[i]
""",
    "only the first 17,000 of 20,000": """
for i in T.parallel(20000):
    C[T.max(i - 17000, 0) % 4096] = A[i % 4096]
""",
    "wraps around after 17,000": """
for i in T.parallel(20000):
    W[i % 17000] = W[i % 17000] + A[0]
C[0] = W[0]
""",
    "half": "for i in T.parallel(64):\n    C[i // 2] = A[i]",
    "remainder": "for i in T.parallel(64):\n    C[i % 4] = A[i]",
    "a step that meets": "for i in T.parallel(64):\n    C[i * 3 % 7] = A[i]",
    "truncated": "for i in T.parallel(64):\n    C[T.truncdiv(i, 2)] = A[i]",
    "diagonals": "for i in T.parallel(64):\n    for j in range(64):\n        C[i + j] = A[i]",
    "a diagonal of all": "for t in T.parallel(4096):\n    D[t // 64, t // 64] = A[t]",
    "square": "for i in T.parallel(128):\n    C[(i - 64) * (i - 64)] = A[i]",
    "index through another tensor": "for i in T.parallel(64):\n    C[I[i]] = A[i]",
    "index and iteration": "for i in T.parallel(64):\n    C[(I[i] + i) % 9] = A[i]",
    "bytes as indices": 'for i in T.parallel(64):\n    C[T.Cast("int32", U[i]) + i] = A[i]',
    "neighbour": "for i in T.parallel(64):\n    C[i] = C[i + 1]",
    "the one in front": "for i in T.parallel(1, 64):\n    C[i] = C[i - 1] + A[i]",
    "another row": """
for i in T.parallel(63):
    for j in range(64):
        D[i, j] = D[i + 1, j]
""",
    "transposed in place": """
for i in T.parallel(64):
    for j in range(64):
        D[i, j] = D[j, i]
""",
    "reversed in place": "for i in T.parallel(64):\n    C[i] = C[63 - i]",
    "two halves that meet": """
for i in T.parallel(64):
    C[i] = A[i]
    C[i + 63] = A[i]
""",
    "nested loops": """
for i in T.parallel(64):
    for j in T.parallel(64):
        D[i, 0] = D[i, 0] + M[i, j]
""",
    "nested loops, the outer one": """
for i in T.parallel(64):
    for j in T.parallel(64):
        C[j] = C[j] + M[i, j]
""",
    "under a condition": "for i in T.parallel(64):\n    if i < 2:\n        C[0] = C[0] + A[i]",
    "under a condition on data": "for i in T.parallel(64):\n    if I[i] > 3:\n        C[0] = A[i]",
    "else": """
for i in T.parallel(64):
    if i < 1:
        C[1] = A[i]
    else:
        C[0] = A[i]
""",
    "where the data say that it runs": """
if I[0] > 7:
    for i in T.parallel(64):
        C[0] = C[0] + A[i]
""",
    "while": """
for i in T.parallel(64):
    while C[0] < A[i]:
        C[0] = C[0] + A[i]
""",
    "a reduction": """
for k in T.parallel(64):
    with T.sblock("C"):
        vk = T.axis.reduce(64, k)
        with T.init():
            C[0] = T.float32(0)
        C[0] = C[0] + A[vk]
""",
    "scratch for all": """
W = T.sblock_alloc_buffer((64,), "float32")
for j in range(64):
    W[j] = T.float32(0)
for i in T.parallel(64):
    for j in range(64):
        W[j] = M[i, j]
    for j in range(64):
        D[i, j] = W[j]
""",
    "vectors that overlap": """
for i in T.parallel(16):
    C[T.Ramp(i * 3, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]
""",
    "vectors with gaps that meet": """
for i in T.parallel(16):
    C[T.Ramp(i, 2, 4)] = A[T.Ramp(i * 4, 1, 4)]
""",
    "an unknown function": """
for i in T.parallel(64):
    T.evaluate(T.call_extern("int32", "work", C.access_ptr("rw")))
""",
    "an unknown function of more than its block says": """
for i in T.parallel(64):
    with T.sblock("C"):
        vi = T.axis.spatial(64, i)
        T.reads(A[vi])
        T.writes(C[vi : vi + 2])
        T.evaluate(T.call_extern("int32", "work", C.access_ptr("w"), A.access_ptr("r")))
""",
    "an atomic addition": """
for i in T.parallel(64):
    T.evaluate(T.call_extern("float32", "atomicAdd", T.address_of(C[0]), A[i]))
""",
    "two values for one place": """
for i in T.parallel(64):
    C[0] = T.float32(0)
    C[0] = T.float32(1)
""",
    "sums in tiles that overlap": """
for o in T.parallel(9):
    start: T.let[T.int32] = T.min(o * 8, 57)
    for j in range(8):
        C[start + j] = T.float32(0)
    for k in range(64):
        for j in range(8):
            C[start + j] = C[start + j] + M[k, j]
""",
    "tiles that overlap and know where they are": """
for o in T.parallel(9):
    start: T.let[T.int32] = T.min(o * 8, 57)
    for j in range(8):
        C[start + j] = A[start + j] + A[j]
""",
    "tiles that overlap with a sum along them": """
for o in T.parallel(9):
    own = T.sblock_alloc_buffer((80,), "float32")
    start: T.let[T.int32] = T.min(o * 8, 57)
    own[start] = T.float32(0)
    for j in range(8):
        own[start + j + 1] = own[start + j] + A[start + j]
    for j in range(8):
        C[start + j] = own[start + j + 1]
""",
    "tiles that overlap with sums of as many terms as the tile": """
for o in T.parallel(9):
    own = T.sblock_alloc_buffer((80,), "float32")
    start: T.let[T.int32] = T.min(o * 8, 57)
    for j in range(8):
        own[start + j] = T.float32(0)
    for k in range(o):
        for j in range(8):
            own[start + j] = own[start + j] + A[start + j]
    for j in range(8):
        C[start + j] = own[start + j]
""",
    "tiles that overlap of pairs": """
for o in T.parallel(9):
    own = T.sblock_alloc_buffer((80,), "float32")
    start: T.let[T.int32] = T.min(o * 8, 57)
    for j in range(8):
        own[(start + j) // 2] = T.float32(0)
    for j in range(8):
        own[(start + j) // 2] = own[(start + j) // 2] + T.float32(1)
    for j in range(4):
        C[(start + j) // 2] = own[(start + j) // 2]
""",
    "tiles that overlap, made from the end": """
for o in T.parallel(9):
    own = T.sblock_alloc_buffer((80,), "float32")
    start: T.let[T.int32] = T.min(o * 8, 57)
    for j in range(8):
        own[start + j] = A[start + j]
        C[start + j] = own[start + 7 - j]
""",
    "tiles that overlap of which a half is summed": """
for o in T.parallel(9):
    own = T.sblock_alloc_buffer((80,), "float32")
    start: T.let[T.int32] = T.min(o * 8, 57)
    for j in range(8):
        own[start + j] = T.float32(0)
    for k, j in T.grid(8, 4):
        own[start + j] = own[start + j] + M[k, start + j]
    for j in range(8):
        C[start + j] = own[start + j]
""",
}
PREFIX = {"wraps around after 17,000": 'W = T.sblock_alloc_buffer((20000,), "float32")\n'}

REVERSED = " + ".join(
    f"T.shift_left(T.bitwise_and(T.shift_right(i, {k}), 1), {5 - k})" for k in range(6)
)
APART = {
    "the other one of a pair": "for i in T.parallel(64):\n    C[T.bitwise_xor(i, 1)] = A[i]",
    "all bits kept": "for i in T.parallel(64):\n    C[T.bitwise_and(i, T.bitwise_not(0))] = A[i]",
    "four in a row": """
for i in T.parallel(64):
    for k in range(4):
        C[T.bitwise_or(i * 4, k)] = A[i]
""",
    "four in a row by shifts": """
for i in T.parallel(64):
    for k in range(4):
        C[T.bitwise_or(T.shift_left(i, 2), k)] = A[i]
""",
    "bits in the other order": f"for i in T.parallel(64):\n    C[{REVERSED}] = A[i]",
    "from the end": "for i in T.parallel(256):\n    C[255 - i] = A[i]",
    "a step that meets none": "for i in T.parallel(64):\n    C[i * 5 % 64] = A[i]",
    "steps": "for i in T.parallel(64):\n    C[i * 3] = A[i]",
    "in the order of columns": """
for j in T.parallel(64):
    for i in range(64):
        C[i * 64 + j] = M[i, j]
""",
    "fused and transposed": "for t in T.parallel(4096):\n    D[t % 64, t // 64] = A[t]",
    "fused and transposed in one row": """
for t in T.parallel(4096):
    C[t % 64 * 64 + t // 64] = A[t]
""",
    "fused, then split": """
for o in T.parallel(1024):
    for v in range(4):
        D[(o * 4 + v) // 64, (o * 4 + v) % 64] = A[o * 4 + v]
""",
    "split unevenly": """
for t in T.parallel(36):
    for i in range(13):
        D[t // 6, t % 6 * 13 + i] = A[i]
""",
    "the rest is cut off": """
for o in T.parallel(10):
    for i in range(7):
        if o * 7 + i < 64:
            C[o * 7 + i] = A[i]
""",
    "rows of a triangle": """
for i in T.parallel(64):
    for j in range(i + 1):
        D[i, j] = M[i, j]
""",
    "a triangle in a row": """
for i in T.parallel(64):
    for j in range(i + 1):
        C[i * (i + 1) // 2 + j] = M[i, j]
""",
    "two halves": """
for i in T.parallel(64):
    C[i] = A[i]
    C[i + 64] = A[i]
""",
    "both ends": """
for i in T.parallel(32):
    C[i] = A[i]
    C[63 - i] = A[i]
""",
    "its own element through another name": """
E = T.decl_buffer((4096,), "float32", data=C.data)
for i in T.parallel(64):
    E[i] = A[i]
    C[i] = E[i] * T.float32(2)
""",
    "chosen, and different": """
for i in T.parallel(64):
    C[T.if_then_else(i < 7, 63 - i, i - 7)] = A[i]
""",
    "more than can be counted": "for i in T.parallel(100000000):\n    W[i] = A[0]",
    "as many as a number that is not known": """
for i in T.parallel(I[0]):
    for j in range(8):
        C[i * 8 + j] = A[j]
""",
    "moved by a number that is not known": "for i in T.parallel(64):\n    C[I[0] + i] = A[i]",
    "only the first": "for i in T.parallel(64):\n    if i == 0:\n        C[0] = C[0] + A[i]",
    "only the last": "for i in T.parallel(64):\n    if i > 62:\n        C[0] = C[0] + A[i]",
    "only where an input says": """
for i in T.parallel(64):
    if i == I[0]:
        C[0] = C[0] + A[i]
""",
    "inside of a loop": """
for t in range(100000):
    for i in T.parallel(64):
        C[i] = C[i] + A[i]
""",
    "vectors": "for i in T.parallel(16):\n    C[T.Ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)]",
    "vectors with gaps": """
for i in T.parallel(4):
    C[T.Ramp(i, 4, 4)] = A[T.Ramp(i * 4, 1, 4)]
""",
    "nested loops": """
for i in T.parallel(64):
    for j in T.parallel(64):
        D[i, j] = M[i, j]
""",
    "skips iterations of an inner loop": """
for i in T.parallel(64):
    for j in range(64):
        if j > i:
            continue
        D[i, j] = M[i, j]
""",
    "the same value": "for i in T.parallel(64):\n    C[0] = T.float32(1)",
    "the same values": "for i in T.parallel(4):\n    for j in range(64):\n        C[j] = A[j]",
    "the same value by index": "for i in T.parallel(64):\n    C[I[i]] = A[I[i]]",
    "tiles that overlap": """
for o in T.parallel(9):
    start: T.let[T.int32] = T.min(o * 8, 57)
    for j in range(8):
        C[start + j] = A[start + j] * T.float32(2)
""",
    "tiles that overlap, as blocks": """
for o in T.parallel(9):
    for j in range(8):
        with T.sblock("C"):
            vj = T.axis.spatial(65, T.min(o * 8, 57) + j)
            C[vj] = A[vj] + T.float32(1)
""",
    "products in tiles that overlap": """
for o in T.parallel(9):
    own = T.sblock_alloc_buffer((65, 64), "float32")
    start: T.let[T.int32] = T.min(o * 8, 56)
    for j0 in range(4):
        for i, j in T.grid(8, 16):
            with T.sblock("init"):
                vi = T.axis.spatial(64, start + i)
                vj = T.axis.spatial(64, j0 * 16 + j)
                own[vi, vj] = T.float32(0)
        for k, i, j in T.grid(64, 8, 16):
            with T.sblock("update"):
                vi = T.axis.spatial(64, start + i)
                vj = T.axis.spatial(64, j0 * 16 + j)
                vk = T.axis.reduce(64, k)
                own[vi, vj] = own[vi, vj] + M[vi, vk] * M[vk, vj]
        for i, j in T.grid(8, 16):
            with T.sblock("copy"):
                vi = T.axis.spatial(64, start + i)
                vj = T.axis.spatial(64, j0 * 16 + j)
                D[vi, vj] = own[vi, vj]
""",
}
APART_PREFIX = {"more than can be counted": 'W = T.sblock_alloc_buffer((100000000,), "float32")\n'}


@pytest.mark.parametrize("name", RACES)
def test_what_is_not_proven_is_refused(name: str) -> None:
    found = determinism(from_body(PREFIX.get(name, "") + RACES[name], TENSORS))
    assert found.race is not None and found.race.startswith("iterations of loop ")
    assert not found.proven


@pytest.mark.parametrize("name", APART)
def test_what_is_apart_is_accepted(name: str) -> None:
    found = determinism(from_body(APART_PREFIX.get(name, "") + APART[name], TENSORS))
    assert found.race is None
    # Other names, and jumps, are looked at here; elsewhere nothing is known of them.
    assert found.proven or "decl_buffer" in APART[name] or "continue" in APART[name]


def test_a_race_that_is_not_certain_says_so() -> None:
    body = "for i in T.parallel(64):\n    C[T.Cast('int32', A[i]) % 3 + i] = A[i]"
    assert determinism(from_body(RACES["floats"], TENSORS)).race == (
        "iterations of loop 'i' run in parallel and write elements of 'C' that are not proven "
        "to be different"
    )
    assert "that the program reads are equal" in str(determinism(from_body(body, TENSORS)).race)
