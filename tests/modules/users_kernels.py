"""Kernels as users write them: element-wise, gathers, scans, a histogram, packed weights.

Each is a function of its size; tests take a small one, ``benchmarks/users_kernels.py`` a large one.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping

from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload


def _kernel(name: str, parameters: str, body: str) -> Workload:
    stated = 'T.func_attr({"tirx.noalias": True})\n'
    lines = textwrap.indent(stated + textwrap.dedent(body).strip("\n"), "    ")
    return from_script(f"@T.prim_func(s_tir=True)\ndef main({parameters}):\n{lines}\n", name=name)


def rotary(rows: int = 16, heads: int = 4, size: int = 32) -> Workload:
    """Rotary embedding of ``rows`` positions: halves of each head turned by the row's angles."""
    half = size // 2
    return _kernel(
        "rotary",
        f"X: T.Buffer(({rows}, {heads}, {size})), S: T.Buffer(({rows}, {half})), "
        f"C: T.Buffer(({rows}, {half})), Y: T.Buffer(({rows}, {heads}, {size}))",
        f"""
        for i, h, j in T.grid({rows}, {heads}, {size}):
            with T.sblock("Y"):
                vi, vh, vj = T.axis.remap("SSS", [i, h, j])
                Y[vi, vh, vj] = T.if_then_else(
                    vj < {half},
                    X[vi, vh, vj] * C[vi, vj % {half}]
                    - X[vi, vh, vj % {half} + {half}] * S[vi, vj % {half}],
                    X[vi, vh, vj] * C[vi, vj % {half}]
                    + X[vi, vh, vj % {half}] * S[vi, vj % {half}],
                )
        """,
    )


def prefix_sum(rows: int = 16, size: int = 64) -> Workload:
    """Inclusive prefix sum along each row."""
    return _kernel(
        "prefix_sum",
        f"A: T.Buffer(({rows}, {size})), B: T.Buffer(({rows}, {size}))",
        f"""
        for i, j in T.grid({rows}, {size}):
            with T.sblock("B"):
                vi = T.axis.spatial({rows}, i)
                vj = T.axis.opaque({size}, j)
                B[vi, vj] = T.if_then_else(vj == 0, T.float32(0), B[vi, vj - 1]) + A[vi, vj]
        """,
    )


def histogram(size: int = 256, bins: int = 16) -> Workload:
    """How many elements each bin has."""
    return _kernel(
        "histogram",
        f'A: T.Buffer(({size},), "int32"), H: T.Buffer(({bins},), "int32")',
        f"""
        for b in range({bins}):
            with T.sblock("zero"):
                vb = T.axis.spatial({bins}, b)
                H[vb] = 0
        for i in range({size}):
            with T.sblock("count"):
                vi = T.axis.opaque({size}, i)
                H[A[vi] & {bins - 1}] = H[A[vi] & {bins - 1}] + 1
        """,
    )


def butterfly(rows: int = 16, half: int = 32) -> Workload:
    """One radix-2 stage of a Fourier transform of ``2 * half`` complex numbers in each row."""
    return _kernel(
        "butterfly",
        f"X: T.Buffer(({rows}, 2, {half}, 2)), W: T.Buffer(({half}, 2)), "
        f"Y: T.Buffer(({rows}, 2, {half}, 2))",
        f"""
        for i, s, k, c in T.grid({rows}, 2, {half}, 2):
            with T.sblock("Y"):
                vi, vs, vk, vc = T.axis.remap("SSSS", [i, s, k, c])
                Y[vi, vs, vk, vc] = X[vi, 0, vk, vc] + T.if_then_else(
                    vs == 0, T.float32(1), T.float32(-1)
                ) * T.if_then_else(
                    vc == 0,
                    X[vi, 1, vk, 0] * W[vk, 0] - X[vi, 1, vk, 1] * W[vk, 1],
                    X[vi, 1, vk, 0] * W[vk, 1] + X[vi, 1, vk, 1] * W[vk, 0],
                )
        """,
    )


def sparse_product(rows: int = 64, columns: int = 64, each: int = 8) -> Workload:
    """Product of a sparse matrix (CSR, ``each`` entries a row) and a vector."""
    return _kernel(
        "sparse_product",
        f'P: T.Buffer(({rows + 1},), "int32"), I: T.Buffer(({rows * each},), "int32"), '
        f"V: T.Buffer(({rows * each},)), X: T.Buffer(({columns},)), Y: T.Buffer(({rows},))",
        f"""
        for i in range({rows}):
            with T.sblock("zero"):
                vi = T.axis.spatial({rows}, i)
                Y[vi] = T.float32(0)
            for k in range(P[i + 1] - P[i]):
                with T.sblock("Y"):
                    vi = T.axis.spatial({rows}, i)
                    vk = T.axis.opaque({rows * each}, P[i] + k)
                    Y[vi] = Y[vi] + V[vk] * X[I[vk]]
        """,
    )


def sparse_long_rows(rows: int = 16, columns: int = 64, each: int = 50) -> Workload:
    """That product with many entries a row: each addition waits for the one before it."""
    return sparse_product(rows, columns, each)


def bilateral(rows: int = 24, columns: int = 32) -> Workload:
    """Bilateral filter of an image, 5 by 5, whose border is part of the input."""
    return _kernel(
        "bilateral",
        f"A: T.Buffer(({rows + 4}, {columns + 4})), B: T.Buffer(({rows}, {columns}))",
        f"""
        W = T.sblock_alloc_buffer(({rows}, {columns}))
        N = T.sblock_alloc_buffer(({rows}, {columns}))
        for y, x, r, s in T.grid({rows}, {columns}, 5, 5):
            with T.sblock("W"):
                vy, vx, vr, vs = T.axis.remap("SSRR", [y, x, r, s])
                with T.init():
                    W[vy, vx] = T.float32(0)
                W[vy, vx] = W[vy, vx] + T.exp(
                    (A[vy + vr, vx + vs] - A[vy + 2, vx + 2])
                    * (A[vy + 2, vx + 2] - A[vy + vr, vx + vs])
                )
        for y, x, r, s in T.grid({rows}, {columns}, 5, 5):
            with T.sblock("N"):
                vy, vx, vr, vs = T.axis.remap("SSRR", [y, x, r, s])
                with T.init():
                    N[vy, vx] = T.float32(0)
                N[vy, vx] = N[vy, vx] + A[vy + vr, vx + vs] * T.exp(
                    (A[vy + vr, vx + vs] - A[vy + 2, vx + 2])
                    * (A[vy + 2, vx + 2] - A[vy + vr, vx + vs])
                )
        for y, x in T.grid({rows}, {columns}):
            with T.sblock("B"):
                vy, vx = T.axis.remap("SS", [y, x])
                B[vy, vx] = N[vy, vx] / W[vy, vx]
        """,
    )


def _network(size: int) -> list[tuple[int, int]]:
    """Return the pairs of Batcher's odd-even merge sort."""
    pairs, p = [], 1
    while p < size:
        k = p
        while k:
            for j in range(k % p, size - k, 2 * k):
                for i in range(min(k, size - j - k)):
                    if (i + j) // (p * 2) == (i + j + k) // (p * 2):
                        pairs.append((i + j, i + j + k))
            k //= 2
        p *= 2
    return pairs


def sort_rows(rows: int = 64, size: int = 16) -> Workload:
    """Sort each row by Batcher's network, one compare-and-exchange after the other."""
    steps = "\n".join(
        f"        low{n}: T.float32 = T.min(B[vi, {a}], B[vi, {b}])\n"
        f"        high{n}: T.float32 = T.max(B[vi, {a}], B[vi, {b}])\n"
        f"        B[vi, {a}] = low{n}\n"
        f"        B[vi, {b}] = high{n}"
        for n, (a, b) in enumerate(_network(size))
    )
    copies = "\n".join(f"        B[vi, {k}] = A[vi, {k}]" for k in range(size))
    return _kernel(
        "sort_rows",
        f"A: T.Buffer(({rows}, {size})), B: T.Buffer(({rows}, {size}))",
        f"for i in range({rows}):\n"
        '    with T.sblock("B"):\n'
        f"        vi = T.axis.spatial({rows}, i)\n"
        f"        T.reads(A[vi, 0:{size}])\n"
        f"        T.writes(B[vi, 0:{size}])\n"
        f"{copies}\n{steps}\n",
    )


def int4_product(rows: int = 32, size: int = 64, group: int = 32) -> Workload:
    """Product of a matrix of two 4-bit weights a byte, a scale for each group, and a vector."""
    return _kernel(
        "int4_product",
        f'W: T.Buffer(({rows}, {size // 2}), "uint8"), S: T.Buffer(({rows}, {size // group})), '
        f"X: T.Buffer(({size},)), Y: T.Buffer(({rows},))",
        f"""
        for i, k in T.grid({rows}, {size}):
            with T.sblock("Y"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    Y[vi] = T.float32(0)
                Y[vi] = Y[vi] + T.Cast("float32", T.Cast("int32", T.bitwise_and(
                    T.shift_right(W[vi, vk // 2], T.Cast("uint8", vk % 2 * 4)), T.uint8(15)
                )) - 8) * S[vi, vk // {group}] * X[vk]
        """,
    )


USERS_KERNELS: Mapping[str, Callable[..., Workload]] = {
    make.__name__: make
    for make in (
        rotary,
        prefix_sum,
        histogram,
        butterfly,
        sparse_product,
        sparse_long_rows,
        bilateral,
        sort_rows,
        int4_product,
    )
}
LARGE: Mapping[str, tuple[int, ...]] = {
    "rotary": (512, 16, 64),
    "prefix_sum": (1024, 1024),
    "histogram": (1 << 20, 256),
    "butterfly": (256, 1024),
    "sparse_product": (16384, 16384, 16),
    "sparse_long_rows": (2048, 16384, 256),
    "bilateral": (256, 256),
    "sort_rows": (65536, 16),
    "int4_product": (2048, 2048, 32),
}
"""Sizes whose calls take 0.1 to 10 ms."""
