"""Small programs, one for each pattern that some instruction needs."""

from __future__ import annotations

import functools

from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload

_MATRIX = "T.Buffer((16, 16), 'float32')"


def _program(name: str, signature: str, body: str) -> Workload:
    lines = "\n".join("    " + line for line in body.strip("\n").splitlines())
    return from_script(f"@T.prim_func(s_tir=True)\ndef main({signature}):\n{lines}\n", name=name)


@functools.cache
def elementwise() -> Workload:
    """B = A * 2."""
    body = """
for i, j in T.grid(16, 16):
    with T.sblock("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    return _program("elementwise", f"A: {_MATRIX}, B: {_MATRIX}", body)


@functools.cache
def chain() -> Workload:
    """B = A * 2, then C = B + 1."""
    body = """
B = T.sblock_alloc_buffer((16, 16), 'float32')
for i, j in T.grid(16, 16):
    with T.sblock("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(2)
for i, j in T.grid(16, 16):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj] + T.float32(1)
"""
    return _program("chain", f"A: {_MATRIX}, C: {_MATRIX}", body)


@functools.cache
def integer_chain() -> Workload:
    """B = A * 2, then C = B + 1, in integers."""
    body = """
B = T.sblock_alloc_buffer((16, 16), 'int32')
for i, j in T.grid(16, 16):
    with T.sblock("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * 2
for i, j in T.grid(16, 16):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = B[vi, vj] + 1
"""
    matrix = "T.Buffer((16, 16), 'int32')"
    return _program("integer_chain", f"A: {matrix}, C: {matrix}", body)


@functools.cache
def siblings() -> Workload:
    """B = A * 2 and C = A + 1: neither reads the other."""
    body = """
for i, j in T.grid(16, 16):
    with T.sblock("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi, vj] * T.float32(2)
for i, j in T.grid(16, 16):
    with T.sblock("C"):
        vi, vj = T.axis.remap("SS", [i, j])
        C[vi, vj] = A[vi, vj] + T.float32(1)
"""
    return _program("siblings", f"A: {_MATRIX}, B: {_MATRIX}, C: {_MATRIX}", body)


@functools.cache
def matmul(n: int = 16) -> Workload:
    """C = A @ B, ``n`` x ``n`` x ``n``."""
    body = f"""
for i, j, k in T.grid({n}, {n}, {n}):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
    matrix = f"T.Buffer(({n}, {n}), 'float32')"
    return _program("matmul", f"A: {matrix}, B: {matrix}, C: {matrix}", body)


@functools.cache
def relu_matmul() -> Workload:
    """D = max(A @ B + bias, 0)."""
    return biased_matmul("T.max(C[vi, vj] + bias[vj], T.float32(0))")


def biased_matmul(epilogue: str = "C[vi, vj] + bias[vj]") -> Workload:
    """D = A @ B + bias, or another epilogue of C = A @ B."""
    body = f"""
C = T.sblock_alloc_buffer((16, 16), 'float32')
for i, j, k in T.grid(16, 16, 16):
    with T.sblock("C"):
        vi, vj, vk = T.axis.remap("SSR", [i, j, k])
        with T.init():
            C[vi, vj] = T.float32(0)
        C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
for i, j in T.grid(16, 16):
    with T.sblock("D"):
        vi, vj = T.axis.remap("SS", [i, j])
        D[vi, vj] = {epilogue}
"""
    signature = f"A: {_MATRIX}, B: {_MATRIX}, bias: T.Buffer((16,), 'float32'), D: {_MATRIX}"
    return _program("biased_matmul", signature, body)


@functools.cache
def row_sum() -> Workload:
    """B[i] = the sum of A[i, :]."""
    body = """
for i, k in T.grid(16, 16):
    with T.sblock("B"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            B[vi] = T.float32(0)
        B[vi] = B[vi] + A[vi, vk]
"""
    return _program("row_sum", f"A: {_MATRIX}, B: T.Buffer((16,), 'float32')", body)


@functools.cache
def window() -> Workload:
    """B = A * 2, then C[i] = the largest of B[i], B[i + 1] and B[i + 2]."""
    body = """
B = T.sblock_alloc_buffer((18,), 'float32')
for i in range(18):
    with T.sblock("B"):
        vi = T.axis.spatial(18, i)
        B[vi] = A[vi] * T.float32(2)
for i, k in T.grid(16, 3):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = T.float32(-1000)
        C[vi] = T.max(C[vi], B[vi + vk])
"""
    return _program("window", "A: T.Buffer((18,), 'float32'), C: T.Buffer((16,), 'float32')", body)


@functools.cache
def recurrence() -> Workload:
    """B[0] = 1, then B[i + 1] = A[i] * 2, then C = B + 1; the first block has no variables."""
    body = """
B = T.sblock_alloc_buffer((16,), 'float32')
with T.sblock("first"):
    B[0] = T.float32(1)
for i in range(15):
    with T.sblock("B"):
        vi = T.axis.spatial(15, i)
        B[vi + 1] = A[vi] * T.float32(2)
for i in range(16):
    with T.sblock("C"):
        vi = T.axis.spatial(16, i)
        C[vi] = B[vi] + T.float32(1)
"""
    signature = "A: T.Buffer((15,), 'float32'), C: T.Buffer((16,), 'float32')"
    return _program("recurrence", signature, body)


@functools.cache
def resize() -> Workload:
    """B[i, j] = A[i // 2, j // 2]."""
    body = """
for i, j in T.grid(16, 16):
    with T.sblock("B"):
        vi, vj = T.axis.remap("SS", [i, j])
        B[vi, vj] = A[vi // 2, vj // 2]
"""
    return _program("resize", f"A: T.Buffer((8, 8), 'float32'), B: {_MATRIX}", body)


@functools.cache
def gather() -> Workload:
    """B[i] = A[index[i]], with the access to ``index`` in the block's signature."""
    body = """
for i in range(16):
    with T.sblock("B"):
        vi = T.axis.spatial(16, i)
        T.reads(A[0:16], index[vi])
        T.writes(B[vi])
        B[vi] = A[index[vi]]
"""
    vector = "T.Buffer((16,), 'float32')"
    return _program("gather", f"A: {vector}, index: T.Buffer((16,), 'int32'), B: {vector}", body)


@functools.cache
def in_place() -> Workload:
    """A = A + 1 in one block, then B = B + 1 in a block for each row."""
    body = """
for i in range(1):
    with T.sblock("A"):
        T.reads(A[0:16, 0:16])
        T.writes(A[0:16, 0:16])
        for j, k in T.grid(16, 16):
            A[j, k] = A[j, k] + T.float32(1)
for i in range(16):
    with T.sblock("B"):
        vi = T.axis.spatial(16, i)
        T.reads(B[vi, 0:16])
        T.writes(B[vi, 0:16])
        for j in range(16):
            B[vi, j] = B[vi, j] + T.float32(1)
"""
    return _program("in_place", f"A: {_MATRIX}, B: {_MATRIX}", body)


@functools.cache
def padded() -> Workload:
    """B = A with two zeros on either side."""
    body = """
for i in range(20):
    with T.sblock("B"):
        vi = T.axis.spatial(20, i)
        B[vi] = T.if_then_else(2 <= vi and vi < 18, A[vi - 2], T.float32(0))
"""
    return _program("padded", "A: T.Buffer((16,), 'float32'), B: T.Buffer((20,), 'float32')", body)


@functools.cache
def byte_dot() -> Workload:
    """C[i] = the sum over k in 4 of A[k] * B[i, k] in bytes: what ``dot_16x4_vnni`` does."""
    body = """
for i, k in T.grid(16, 4):
    with T.sblock("C"):
        vi, vk = T.axis.remap("SR", [i, k])
        with T.init():
            C[vi] = 0
        C[vi] = C[vi] + T.cast(A[vk], 'int32') * T.cast(B[vi, vk], 'int32')
"""
    signature = (
        "A: T.Buffer((4,), 'uint8'), B: T.Buffer((16, 4), 'int8'), C: T.Buffer((16,), 'int32')"
    )
    return _program("byte_dot", signature, body)
