"""Moving data to places that are known: joins, slices, padding, patches."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.script import tirx as T

from tests.bring_your_own.program import program


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
