"""One result element from the elements at the same place: every type, and odd shapes."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.script import from_source, tirx as T

from tests.bring_your_own.program import program


@program(lambda x, y: 2.5 * x + y)
def axpy_in_place():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((1009,), "float32"), y: T.Buffer((1009,), "float32")):
        for i in range(1009):
            with T.sblock("axpy"):
                vi = T.axis.spatial(1009, i)
                y[vi] = T.float32(2.5) * x[vi] + y[vi]

    return main


@program(lambda x: 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3))))
def gelu_tanh():
    x = te.placeholder((33, 65), name="x")
    inner = te.compute(x.shape, lambda i, j: x[i, j] + 0.044715 * x[i, j] * x[i, j] * x[i, j])
    return [
        x,
        te.compute(
            x.shape,
            lambda i, j: 0.5 * x[i, j] * (1.0 + te.tanh(0.7978845608 * inner[i, j])),
            name="gelu",
        ),
    ]


@program(lambda x: x.astype(np.float32) * 3 + 1, dtype="bfloat16")
def scale_bfloat16():
    x = te.placeholder((40, 50), "bfloat16", name="x")
    wide = lambda i, j: x[i, j].astype("float32") * 3.0 + 1.0  # noqa: E731
    return [x, te.compute(x.shape, lambda i, j: wide(i, j).astype("bfloat16"), name="scaled")]


@program(lambda x, y: np.sqrt(x.astype(np.float32) ** 2 + y.astype(np.float32) ** 2), "float16")
def hypot_float16():
    x = te.placeholder((31, 64), "float16", name="x")
    y = te.placeholder((31, 64), "float16", name="y")
    return [
        x,
        y,
        te.compute(x.shape, lambda *i: te.sqrt(x(*i) * x(*i) + y(*i) * y(*i)), name="hypot"),
    ]


@program(lambda x: ((0.5 * x - 0.25) * x + 2.0) * x - 1.0, "float64")
def horner_float64():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((777,), "float64"), y: T.Buffer((777,), "float64")):
        for i in range(777):
            with T.sblock("horner"):
                vi = T.axis.spatial(777, i)
                y[vi] = ((T.float64(0.5) * x[vi] - T.float64(0.25)) * x[vi] + T.float64(2)) * x[
                    vi
                ] - T.float64(1)

    return main


@program(lambda x, y: np.clip(x.astype(int) + y, -128, 127), "int8")
def saturating_add_int8():
    x = te.placeholder((97, 33), "int8", name="x")
    y = te.placeholder((97, 33), "int8", name="y")

    def add(*i):
        total = x(*i).astype("int16") + y(*i).astype("int16")
        low, high = tirx.const(-128, "int16"), tirx.const(127, "int16")
        return te.max(te.min(total, high), low).astype("int8")

    return [x, y, te.compute(x.shape, add, name="sum")]


@program(lambda x, y: (x.astype(int) + y) >> 1, "int16")
def average_int16():
    x = te.placeholder((500,), "int16", name="x")
    y = te.placeholder((500,), "int16", name="y")
    wide = lambda i: (x[i].astype("int32") + y[i].astype("int32")) >> 1  # noqa: E731
    return [x, y, te.compute((500,), lambda i: wide(i).astype("int16"), name="average")]


@program(
    lambda a, x: (x.astype(int) * a + (255 - a.astype(int)) * 77 + 127) // 255,
    "uint8",
)
def blend_uint8():
    alpha = te.placeholder((24, 32, 3), "uint8", name="alpha")
    x = te.placeholder((24, 32, 3), "uint8", name="x")

    def blend(*i):
        a = alpha(*i).astype("int32")
        return te.div(x(*i).astype("int32") * a + (255 - a) * 77 + 127, 255).astype("uint8")

    return [alpha, x, te.compute(x.shape, blend, name="blend")]


@program(lambda a, b, c: (a & ~b) | c, "bool")
def logic_bool():
    @T.prim_func(s_tir=True)
    def main(
        a: T.Buffer((13, 17), "bool"),
        b: T.Buffer((13, 17), "bool"),
        c: T.Buffer((13, 17), "bool"),
        out: T.Buffer((13, 17), "bool"),
    ):
        for i, j in T.grid(13, 17):
            with T.sblock("out"):
                vi, vj = T.axis.remap("SS", [i, j])
                out[vi, vj] = (a[vi, vj] and not b[vi, vj]) or c[vi, vj]

    return main


@program(lambda x, low: np.where(x > 0.5, 0.5, np.where(x < low, low, x)))
def where_clip():
    x = te.placeholder((61, 67), name="x")
    low = te.placeholder((67,), name="low")
    half = tirx.const(0.5, "float32")
    return [
        x,
        low,
        te.compute(
            x.shape,
            lambda i, j: tirx.Select(
                x[i, j] > half, half, tirx.Select(x[i, j] < low[j], low[j], x[i, j])
            ),
            name="clipped",
        ),
    ]


@program(lambda a, b: a * b + 1)
def zero_dimensions():
    a = te.placeholder((), name="a")
    b = te.placeholder((), name="b")
    return [a, b, te.compute((), lambda: a() * b() + 1.0, name="c")]


@program(lambda x, y: x + y)
def unit_extents():
    x = te.placeholder((1, 1, 7, 1), name="x")
    y = te.placeholder((1, 1, 1, 1), name="y")
    return [x, y, te.compute(x.shape, lambda i, j, k, m: x[i, j, k, m] + y[0, 0, 0, 0], name="z")]


@program(lambda x: (np.sin(x), np.cos(x)))
def sine_and_cosine():
    return from_source("""
@T.prim_func(s_tir=True)
def main(x: T.Buffer((19, 23), "float32"), s: T.Buffer((19, 23), "float32"),
         c: T.Buffer((19, 23), "float32")):
    for i, j in T.grid(19, 23):
        with T.sblock("both"):
            vi, vj = T.axis.remap("SS", [i, j])
            s[vi, vj] = T.sin(x[vi, vj])
            c[vi, vj] = T.cos(x[vi, vj])
""")


@program(lambda x: np.clip(np.floor(x.astype(np.float32) * 0.37 + 128), 0, 255), "uint8")
def rescale_to_uint8():
    x = te.placeholder((45, 45), "int8", name="x")
    real = te.compute(x.shape, lambda *i: x(*i).astype("float32") * 0.37 + 128.0, name="real")
    low, high = tirx.const(0.0, "float32"), tirx.const(255.0, "float32")
    return [
        x,
        te.compute(
            x.shape,
            lambda *i: te.max(te.min(te.floor(real(*i)), high), low).astype("uint8"),
            name="scaled",
        ),
    ]


@program(
    lambda a, b: (a // b, a - b * (a // b)),
    "int32",
    inputs=lambda rng: [
        rng.integers(-1000, 1000, (29, 31)).astype("int32"),
        rng.integers(1, 50, (29, 31)).astype("int32"),
    ],
)
def floor_division():
    a = te.placeholder((29, 31), "int32", name="a")
    b = te.placeholder((29, 31), "int32", name="b")
    quotient = te.compute(a.shape, lambda *i: te.floordiv(a(*i), b(*i)), name="quotient")
    remainder = te.compute(a.shape, lambda *i: te.floormod(a(*i), b(*i)), name="remainder")
    return [a, b, quotient, remainder]
