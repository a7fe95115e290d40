"""Moving data: gathers, scatters, ragged rows, and changes of shape."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.script import tirx as T

from tests.bring_your_own.program import program


@program(lambda table, index: table[index])
def embedding():
    table = te.placeholder((1000, 48), name="table")
    index = te.placeholder((37,), "int32", name="index")
    return [table, index, te.compute((37, 48), lambda i, j: table[index[i], j], name="rows")]


@program(
    lambda index, x: np.take_along_axis(x, index, axis=1),
    "int64",
    inputs=lambda rng: [
        rng.integers(0, 70, (30, 20)).astype("int64"),
        rng.uniform(-1, 1, (30, 70)).astype("float32"),
    ],
)
def take_along_axis_int64():
    index = te.placeholder((30, 20), "int64", name="index")
    x = te.placeholder((30, 70), name="x")
    return [index, x, te.compute((30, 20), lambda i, j: x[i, index[i, j]], name="taken")]


def _scattered(index, values):
    out = np.zeros((64, 8), values.dtype)
    out[index] = values
    return out


@program(
    _scattered,
    inputs=lambda rng: [
        rng.permutation(64)[:40].astype("int32"),
        rng.uniform(-1, 1, (40, 8)).astype("float32"),
    ],
)
def scatter_rows():
    @T.prim_func(s_tir=True)
    def main(
        index: T.Buffer((40,), "int32"),
        values: T.Buffer((40, 8), "float32"),
        out: T.Buffer((64, 8), "float32"),
    ):
        for i, j in T.grid(64, 8):
            with T.sblock("zero"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = T.float32(0)
        for i, j in T.grid(40, 8):
            with T.sblock("scatter"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(index[vi], values[vi, vj])
                T.writes(out[0:64, vj])
                out[index[vi], vj] = values[vi, vj]

    return main


def _scatter_added(index, values, out):
    out = out.copy()
    np.add.at(out, index, values)
    return out


@program(_scatter_added)
def scatter_add_in_place():
    @T.prim_func(s_tir=True)
    def main(
        index: T.Buffer((200,), "int32"),
        values: T.Buffer((200, 16), "float32"),
        out: T.Buffer((50, 16), "float32"),
    ):
        for i, j in T.grid(200, 16):
            with T.sblock("add"):
                vi = T.axis.opaque(200, i)
                vj = T.axis.spatial(16, j)
                T.reads(index[vi], values[vi, vj], out[0:50, vj])
                T.writes(out[0:50, vj])
                out[index[vi], vj] = out[index[vi], vj] + values[vi, vj]

    return main


def _sparse(rng):
    lengths = rng.integers(0, 9, 60)
    lengths[-1] += 300 - lengths.sum() if lengths.sum() < 300 else 0
    offsets = np.minimum(np.concatenate([[0], np.cumsum(lengths)]), 300)
    return [
        offsets.astype("int32"),
        rng.integers(0, 80, 300).astype("int32"),
        rng.uniform(-1, 1, 300).astype("float32"),
        rng.uniform(-1, 1, 80).astype("float32"),
    ]


def _sparse_product(offsets, columns, values, x):
    terms = values * x[columns]
    ends = list(zip(offsets[:-1], offsets[1:], strict=True))
    return np.array([terms[a:b].sum() for a, b in ends])


@program(_sparse_product, inputs=_sparse, judged=True)
def csr_product():
    @T.prim_func(s_tir=True)
    def main(
        offsets: T.Buffer((61,), "int32"),
        columns: T.Buffer((300,), "int32"),
        values: T.Buffer((300,), "float32"),
        x: T.Buffer((80,), "float32"),
        y: T.Buffer((60,), "float32"),
    ):
        for i in range(60):
            with T.sblock("row"):
                vi = T.axis.spatial(60, i)
                T.reads(offsets[vi : vi + 2], columns[0:300], values[0:300], x[0:80])
                T.writes(y[vi])
                y[vi] = T.float32(0)
                for k in range(offsets[vi + 1] - offsets[vi]):
                    y[vi] = y[vi] + values[offsets[vi] + k] * x[columns[offsets[vi] + k]]

    return main


def _ragged_mean(x, length):
    return np.array([row[:n].sum(0) / n for row, n in zip(x, length, strict=True)])


@program(
    _ragged_mean,
    inputs=lambda rng: [
        rng.uniform(-1, 1, (12, 20, 16)).astype("float32"),
        rng.integers(1, 21, 12).astype("int32"),
    ],
)
def ragged_mean():
    x = te.placeholder((12, 20, 16), name="x")
    length = te.placeholder((12,), "int32", name="length")
    k = te.reduce_axis((0, 20), name="k")
    zero = tirx.const(0, "float32")
    total = te.compute(
        (12, 16),
        lambda b, j: te.sum(tirx.Select(k < length[b], x[b, k, j], zero), axis=k),
        name="total",
    )
    return [
        x,
        length,
        te.compute((12, 16), lambda b, j: total[b, j] / length[b].astype("float32"), name="mean"),
    ]


@program(lambda index: np.eye(19)[index], "int32")
def one_hot():
    index = te.placeholder((53,), "int32", name="index")
    return [
        index,
        te.compute((53, 19), lambda i, j: (index[i] == j).astype("float32"), name="hot"),
    ]


@program(lambda x: np.roll(x, (3, -5), (0, 1))[::-1], "int16")
def roll_and_reverse_int16():
    x = te.placeholder((21, 34), "int16", name="x")
    return [
        x,
        te.compute(
            x.shape,
            lambda i, j: x[te.indexmod(20 - i - 3 + 21, 21), te.indexmod(j + 5, 34)],
            name="rolled",
        ),
    ]


@program(lambda a, b: np.concatenate([a, b], axis=1), "float16")
def concatenate_float16():
    a = te.placeholder((28, 15), "float16", name="a")
    b = te.placeholder((28, 26), "float16", name="b")
    return [
        a,
        b,
        te.compute(
            (28, 41),
            lambda i, j: tirx.if_then_else(j < 15, a[i, j], b[i, j - 15]),
            name="joined",
        ),
    ]


@program(lambda x: np.pad(x, ((2, 3), (1, 4)), mode="reflect"))
def pad_reflecting():
    x = te.placeholder((17, 18), name="x")

    def mirrored(i, extent):
        i = te.if_then_else(i < 0, -i, i)
        return te.if_then_else(i < extent, i, 2 * (extent - 1) - i)

    return [
        x,
        te.compute(
            (22, 23), lambda i, j: x[mirrored(i - 2, 17), mirrored(j - 1, 18)], name="padded"
        ),
    ]


@program(lambda x: np.tril(x, 2), "int32")
def lower_triangle_int32():
    x = te.placeholder((50, 43), "int32", name="x")
    zero = tirx.const(0, "int32")
    return [
        x,
        te.compute(x.shape, lambda i, j: tirx.Select(j <= i + 2, x[i, j], zero), name="tril"),
    ]


@program(lambda x: x.transpose(2, 0, 3, 1), "bfloat16")
def transpose_four_bfloat16():
    x = te.placeholder((5, 12, 7, 16), "bfloat16", name="x")
    return [x, te.compute((7, 5, 16, 12), lambda c, a, d, b: x[a, b, c, d], name="turned")]


@program(lambda x: x[3:90:4, ::-2][:, :20], "uint32")
def strided_slice_uint32():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((90, 41), "uint32"), y: T.Buffer((22, 20), "uint32")):
        for i, j in T.grid(22, 20):
            with T.sblock("slice"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[3 + 4 * vi, 40 - 2 * vj]

    return main


def _patches(x):
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    return windows.transpose(1, 2, 0, 3, 4).reshape(-1, 4 * 9)


@program(_patches)
def im2col():
    x = te.placeholder((4, 12, 14), name="x")
    return [
        x,
        te.compute(
            (120, 36),
            lambda p, q: x[
                te.indexdiv(q, 9),
                te.indexdiv(p, 12) + te.indexmod(te.indexdiv(q, 3), 3),
                te.indexmod(p, 12) + te.indexmod(q, 3),
            ],
            name="patches",
        ),
    ]
