"""Moving data to places that data say: gathers, scatters, ragged rows."""

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
