"""Reductions: sums, products, extremes and pairs of them, over rows, columns and all."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.script import tirx as T

from tests.bring_your_own.program import program


@program(lambda x: x.sum(1))
def row_sum_of_primes():
    x = te.placeholder((127, 131), name="x")
    k = te.reduce_axis((0, 131), name="k")
    return [x, te.compute((127,), lambda i: te.sum(x[i, k], axis=k), name="total")]


@program(lambda x: x.sum(0), "float64")
def column_sum_float64():
    x = te.placeholder((100, 90), "float64", name="x")
    k = te.reduce_axis((0, 100), name="k")
    return [x, te.compute((90,), lambda j: te.sum(x[k, j], axis=k), name="total")]


@program(lambda x: np.sqrt((x * x).sum()))
def norm_of_all():
    x = te.placeholder((64, 48), name="x")
    i, j = te.reduce_axis((0, 64), name="i"), te.reduce_axis((0, 48), name="j")
    square = te.compute((), lambda: te.sum(x[i, j] * x[i, j], axis=[i, j]), name="square")
    return [x, te.compute((), lambda: te.sqrt(square()), name="norm")]


def _best(x, y):
    return tirx.Select(x[1] >= y[1], x[0], y[0]), tirx.Select(x[1] >= y[1], x[1], y[1])


def _nothing(index, value):
    return tirx.const(-1, index), tirx.min_value(value)


@program(lambda x: (x.argmax(1), x.max(1)))
def argmax_of_rows():
    x = te.placeholder((40, 100), name="x")
    k = te.reduce_axis((0, 100), name="k")
    largest = te.comm_reducer(_best, _nothing, name="argmax")
    return [x, *te.compute((40,), lambda i: largest((k, x[i, k]), axis=k), name="top")]


@program(lambda x: (x.argmin(0), x.min(0)), "int16")
def argmin_of_columns_int16():
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((77, 30), "int16"), at: T.Buffer((30,), "int32"), low: T.Buffer((30,), "int16")
    ):
        for j, k in T.grid(30, 77):
            with T.sblock("argmin"):
                vj, vk = T.axis.remap("SR", [j, k])
                with T.init():
                    at[vj] = -1
                    low[vj] = T.int16(32767)
                v_at: T.let[T.int32] = T.Select(low[vj] <= x[vk, vj], at[vj], vk)
                v_low: T.let[T.int16] = T.Select(low[vj] <= x[vk, vj], low[vj], x[vk, vj])
                at[vj] = v_at
                low[vj] = v_low

    return main


def _softmax_statistics(x):
    largest = x.max(1)
    return largest, np.exp(x - largest[:, None]).sum(1)


@program(_softmax_statistics)
def online_softmax_statistics():
    x = te.placeholder((50, 96), name="x")
    k = te.reduce_axis((0, 96), name="k")

    def joined(a, b):
        top = te.max(a[0], b[0])
        return top, a[1] * te.exp(a[0] - top) + b[1] * te.exp(b[0] - top)

    def start(top, total):
        return tirx.const(-1e30, top), tirx.const(0, total)

    online = te.comm_reducer(joined, start, name="online")
    one = tirx.const(1, "float32")
    return [x, *te.compute((50,), lambda i: online((x[i, k], one), axis=k), name="stats")]


@program(lambda x: (x.sum(1), (x * x).sum(1)))
def sum_and_sum_of_squares():
    @T.prim_func(s_tir=True)
    def main(
        x: T.Buffer((36, 128), "float32"),
        s: T.Buffer((36,), "float32"),
        q: T.Buffer((36,), "float32"),
    ):
        for i, k in T.grid(36, 128):
            with T.sblock("both"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    s[vi] = T.float32(0)
                    q[vi] = T.float32(0)
                s[vi] = s[vi] + x[vi, vk]
                q[vi] = q[vi] + x[vi, vk] * x[vi, vk]

    return main


@program(lambda x: x.all(1), "bool")
def all_of_rows_bool():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((64, 3), "bool"), out: T.Buffer((64,), "bool")):
        for i, k in T.grid(64, 3):
            with T.sblock("all"):
                vi, vk = T.axis.remap("SR", [i, k])
                with T.init():
                    out[vi] = T.bool(True)
                out[vi] = out[vi] and x[vi, vk]

    return main


@program(lambda x: np.count_nonzero(x > 99, axis=(1, 2)), "uint8")
def count_bright_uint8():
    x = te.placeholder((5, 32, 21), "uint8", name="x")
    i, j = te.reduce_axis((0, 32), name="i"), te.reduce_axis((0, 21), name="j")
    bright = lambda b: (x[b, i, j] > tirx.const(99, "uint8")).astype("int32")  # noqa: E731
    return [x, te.compute((5,), lambda b: te.sum(bright(b), axis=[i, j]), name="count")]


@program(lambda x: x.prod(1), inputs=lambda rng: [rng.uniform(0.9, 1.1, (30, 31)).astype("f4")])
def product_of_rows():
    product = te.comm_reducer(lambda a, b: a * b, lambda t: tirx.const(1, t), name="product")
    x = te.placeholder((30, 31), name="x")
    k = te.reduce_axis((0, 31), name="k")
    return [x, te.compute((30,), lambda i: product(x[i, k], axis=k), name="out")]


@program(lambda a, b: (a[:, :, None] + b[None]).min(1))
def tropical_product():
    a = te.placeholder((33, 29), name="a")
    b = te.placeholder((29, 37), name="b")
    k = te.reduce_axis((0, 29), name="k")
    return [
        a,
        b,
        te.compute((33, 37), lambda i, j: te.min(a[i, k] + b[k, j], axis=k), name="shortest"),
    ]


def _logsumexp(x):
    largest = x.max(1, keepdims=True)
    return np.log(np.exp(x - largest).sum(1)) + largest[:, 0]


@program(_logsumexp)
def log_sum_exp():
    x = te.placeholder((44, 70), name="x")
    k, m = te.reduce_axis((0, 70), name="k"), te.reduce_axis((0, 70), name="m")
    top = te.compute((44,), lambda i: te.max(x[i, k], axis=k), name="top")
    total = te.compute((44,), lambda i: te.sum(te.exp(x[i, m] - top[i]), axis=m), name="total")
    return [x, te.compute((44,), lambda i: te.log(total[i]) + top[i], name="out")]


@program(lambda x, y: np.dot(x.astype(np.int64), y), "int64")
def dot_int64():
    x = te.placeholder((1023,), "int64", name="x")
    y = te.placeholder((1023,), "int64", name="y")
    k = te.reduce_axis((0, 1023), name="k")
    return [x, y, te.compute((), lambda: te.sum(x[k] * y[k], axis=k), name="dot")]
