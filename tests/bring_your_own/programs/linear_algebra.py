"""Products of vectors, matrices and batches of small ones, in several types."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.script import tirx as T

from tests.bring_your_own.program import program


def _product(n, m, k, dtype="float32", out="float32"):
    a = te.placeholder((n, k), dtype, name="a")
    b = te.placeholder((k, m), dtype, name="b")
    r = te.reduce_axis((0, k), name="r")
    value = lambda i, j: te.sum(a[i, r].astype(out) * b[r, j].astype(out), axis=r)  # noqa: E731
    return a, b, te.compute((n, m), value, name="c")


@program(lambda a, x: a @ x)
def gemv():
    @T.prim_func(s_tir=True)
    def main(
        a: T.Buffer((203, 150), "float32"),
        x: T.Buffer((150,), "float32"),
        y: T.Buffer((203,), "float32"),
    ):
        for i, k in T.grid(203, 150):
            with T.sblock("y"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    y[vi] = T.float32(0)
                y[vi] = y[vi] + a[vi, vk] * x[vk]

    return main


@program(np.outer)
def outer_product():
    x = te.placeholder((120,), name="x")
    y = te.placeholder((110,), name="y")
    return [x, y, te.compute((120, 110), lambda i, j: x[i] * y[j], name="outer")]


@program(lambda a, b: a @ b)
def batched_small_matmul():
    a = te.placeholder((170, 3, 3), name="a")
    b = te.placeholder((170, 3, 3), name="b")
    k = te.reduce_axis((0, 3), name="k")
    value = lambda n, i, j: te.sum(a[n, i, k] * b[n, k, j], axis=k)  # noqa: E731
    return [a, b, te.compute((170, 3, 3), value, name="c")]


@program(np.kron)
def kronecker():
    @T.prim_func(s_tir=True)
    def main(
        a: T.Buffer((7, 9), "float32"),
        b: T.Buffer((11, 5), "float32"),
        c: T.Buffer((77, 45), "float32"),
    ):
        for i, j in T.grid(77, 45):
            with T.sblock("kron"):
                vi, vj = T.axis.remap("SS", [i, j])
                c[vi, vj] = a[vi // 11, vj // 5] * b[vi % 11, vj % 5]

    return main


@program(lambda a, b: a @ b, "float64")
def matmul_of_primes_float64():
    return list(_product(37, 41, 43, "float64", "float64"))


@program(lambda a, b: a.astype(np.float32) @ b.astype(np.float32), "bfloat16")
def matmul_bfloat16():
    return list(_product(24, 32, 40, "bfloat16"))


@program(lambda a, b: a.astype(np.float32) @ b.astype(np.float32), "float16", tolerance=1e-2)
def matmul_float16():
    return list(_product(33, 30, 36, "float16"))


def _requantised(a, b, bias):
    total = a.astype(np.int64) @ b.astype(np.int64) + bias
    return np.clip(((total * 181 + 32768) >> 16) - 3, -128, 127)


@program(_requantised, "int8")
def quantised_matmul_int8():
    """int8 x int8 -> int32, then a fixed-point scale, a zero point, and int8 again."""
    a, b, c = _product(48, 64, 56, "int8", "int32")
    bias = te.placeholder((64,), "int32", name="bias")
    low, high = tirx.const(-128, "int64"), tirx.const(127, "int64")

    def value(i, j):
        total = (c[i, j] + bias[j]).astype("int64")
        scaled = ((total * 181 + 32768) >> 16) - 3
        return te.max(te.min(scaled, high), low).astype("int8")

    return [a, b, bias, te.compute((48, 64), value, name="out")]


@program(lambda a, b: a.astype(int) @ b.astype(int), "uint8")
def matmul_uint8():
    return list(_product(20, 48, 64, "uint8", "int32"))


@program(lambda x: x.T @ x)
def gram_matrix():
    x = te.placeholder((75, 40), name="x")
    k = te.reduce_axis((0, 75), name="k")
    return [x, te.compute((40, 40), lambda i, j: te.sum(x[k, i] * x[k, j], axis=k), name="gram")]


@program(lambda lower, b: np.tril(lower) @ b)
def triangular_matmul():
    lower = te.placeholder((45, 45), name="lower")
    b = te.placeholder((45, 24), name="b")
    k = te.reduce_axis((0, 45), name="k")
    zero = tirx.const(0, "float32")
    masked = te.compute(
        lower.shape, lambda i, j: tirx.Select(j <= i, lower[i, j], zero), name="masked"
    )
    value = lambda i, j: te.sum(masked[i, k] * b[k, j], axis=k)  # noqa: E731
    return [lower, b, te.compute((45, 24), value, name="c")]


@program(lambda a, b, c: a @ b @ c)
def two_matmuls():
    a, b, ab = _product(30, 36, 28)
    c = te.placeholder((36, 20), name="c")
    k = te.reduce_axis((0, 36), name="k")
    return [a, b, c, te.compute((30, 20), lambda i, j: te.sum(ab[i, k] * c[k, j], axis=k))]


@program(lambda x, y: np.sqrt(((x[:, None] - y[None]) ** 2).sum(-1)), judged=True)
def pairwise_distances():
    x = te.placeholder((40, 13), name="x")
    y = te.placeholder((50, 13), name="y")
    k = te.reduce_axis((0, 13), name="k")
    square = te.compute(
        (40, 50),
        lambda i, j: te.sum((x[i, k] - y[j, k]) * (x[i, k] - y[j, k]), axis=k),
        name="square",
    )
    return [x, y, te.compute((40, 50), lambda i, j: te.sqrt(square[i, j]), name="distance")]


@program(lambda x, m, y: np.einsum("bi,oij,bj->bo", x, m, y))
def bilinear_form():
    x = te.placeholder((14, 17), name="x")
    m = te.placeholder((6, 17, 19), name="m")
    y = te.placeholder((14, 19), name="y")
    i, j = te.reduce_axis((0, 17), name="i"), te.reduce_axis((0, 19), name="j")
    value = lambda b, o: te.sum(x[b, i] * m[o, i, j] * y[b, j], axis=[i, j])  # noqa: E731
    return [x, m, y, te.compute((14, 6), value, name="form")]
