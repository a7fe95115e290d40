"""Programs whose order of steps counts, and programs that overwrite what they read.

A scan reads what it has written: its result counts as an argument that is read, too.
"""

from __future__ import annotations

import numpy as np
from tvm.script import from_source
from tvm.script import tirx as T

from tests.bring_your_own.program import program


@program(lambda x, y: np.cumsum(x, axis=1), tolerance=1e-3)
def cumulative_sum():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((32, 100), "float32"), y: T.Buffer((32, 100), "float32")):
        for i, j in T.grid(32, 100):
            with T.sblock("scan"):
                vi = T.axis.spatial(32, i)
                vj = T.axis.opaque(100, j)
                y[vi, vj] = x[vi, vj] + T.if_then_else(
                    vj > 0, y[vi, T.max(vj - 1, 0)], T.float32(0)
                )

    return main


@program(
    lambda x, y: np.cumprod(x),
    "float64",
    inputs=lambda rng: [rng.uniform(0.9, 1.1, 200), np.zeros(200)],
)
def cumulative_product_float64():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((200,), "float64"), y: T.Buffer((200,), "float64")):
        with T.sblock("first"):
            T.reads(x[0])
            T.writes(y[0])
            y[0] = x[0]
        for i in range(199):
            with T.sblock("scan"):
                vi = T.axis.opaque(199, i)
                y[vi + 1] = y[vi] * x[vi + 1]

    return main


@program(lambda x, y: np.maximum.accumulate(x, axis=0), "int32")
def running_maximum_int32():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((60, 64), "int32"), y: T.Buffer((60, 64), "int32")):
        for j in range(64):
            with T.sblock("first"):
                vj = T.axis.spatial(64, j)
                y[0, vj] = x[0, vj]
        for i, j in T.grid(59, 64):
            with T.sblock("scan"):
                vi = T.axis.opaque(59, i)
                vj = T.axis.spatial(64, j)
                y[vi + 1, vj] = T.max(y[vi, vj], x[vi + 1, vj])

    return main


def _recurrence(a, x):
    y = np.zeros((16, 20), np.float64)
    state = np.zeros(16)
    for t in range(20):
        state = a * state + x[:, t]
        y[:, t] = state
    return y


@program(_recurrence, judged=True)
def linear_recurrence():
    @T.prim_func(s_tir=True)
    def main(
        a: T.Buffer((16,), "float32"),
        x: T.Buffer((16, 20), "float32"),
        y: T.Buffer((16, 20), "float32"),
    ):
        state = T.sblock_alloc_buffer((16, 21), "float32")
        for i in range(16):
            with T.sblock("start"):
                vi = T.axis.spatial(16, i)
                state[vi, 0] = T.float32(0)
        for i, t in T.grid(16, 20):
            with T.sblock("step"):
                vi = T.axis.spatial(16, i)
                vt = T.axis.opaque(20, t)
                state[vi, vt + 1] = a[vi] * state[vi, vt] + x[vi, vt]
        for i, t in T.grid(16, 20):
            with T.sblock("out"):
                vi, vt = T.axis.remap("SS", [i, t])
                y[vi, vt] = state[vi, vt + 1]

    return main


@program(lambda a, b: a + b)
def add_in_place():
    return from_source("""
@T.prim_func(s_tir=True)
def main(a: T.Buffer((90, 91), "float32"), b: T.Buffer((90, 91), "float32")):
    for i, j in T.grid(90, 91):
        with T.sblock("add"):
            vi, vj = T.axis.remap("SS", [i, j])
            a[vi, vj] = a[vi, vj] + b[vi, vj]
""")


@program(lambda x: np.maximum(x, 0), "int8")
def relu_in_place_int8():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((300,), "int8")):
        for i in range(300):
            with T.sblock("relu"):
                vi = T.axis.spatial(300, i)
                x[vi] = T.max(x[vi], T.int8(0))

    return main


@program(lambda a, b, c: c + a @ b)
def accumulating_matmul():
    """No initial value: the product is added to what the caller has."""

    @T.prim_func(s_tir=True)
    def main(
        a: T.Buffer((31, 40), "float32"),
        b: T.Buffer((40, 48), "float32"),
        c: T.Buffer((31, 48), "float32"),
    ):
        for i, j, k in T.grid(31, 48, 40):
            with T.sblock("product"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                c[vi, vj] = c[vi, vj] + a[vi, vk] * b[vk, vj]

    return main


@program(lambda d: np.minimum(d, d[:, 7:8] + d[7:8, :]))
def floyd_warshall_step():
    @T.prim_func(s_tir=True)
    def main(d: T.Buffer((40, 40), "float32")):
        column = T.sblock_alloc_buffer((40,), "float32")
        row = T.sblock_alloc_buffer((40,), "float32")
        for i in range(40):
            with T.sblock("copies"):
                vi = T.axis.spatial(40, i)
                column[vi] = d[vi, 7]
                row[vi] = d[7, vi]
        for i, j in T.grid(40, 40):
            with T.sblock("shorter"):
                vi, vj = T.axis.remap("SS", [i, j])
                d[vi, vj] = T.min(d[vi, vj], column[vi] + row[vj])

    return main


def _histogram(x):
    return np.bincount(x, minlength=256)


@program(_histogram, "uint8")
def histogram_uint8():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((5000,), "uint8"), count: T.Buffer((256,), "int32")):
        for i in range(256):
            with T.sblock("zero"):
                vi = T.axis.spatial(256, i)
                count[vi] = 0
        for i in range(5000):
            with T.sblock("count"):
                vi = T.axis.opaque(5000, i)
                T.reads(x[vi], count[0:256])
                T.writes(count[0:256])
                count[T.int32(x[vi])] = count[T.int32(x[vi])] + 1

    return main


def _sgd(weight, gradient, momentum):
    moved = 0.9 * momentum + gradient
    return weight - 0.1 * moved, moved


@program(_sgd)
def momentum_update_in_place():
    @T.prim_func(s_tir=True)
    def main(
        weight: T.Buffer((33, 47), "float32"),
        gradient: T.Buffer((33, 47), "float32"),
        momentum: T.Buffer((33, 47), "float32"),
    ):
        for i, j in T.grid(33, 47):
            with T.sblock("momentum"):
                vi, vj = T.axis.remap("SS", [i, j])
                momentum[vi, vj] = T.float32(0.9) * momentum[vi, vj] + gradient[vi, vj]
        for i, j in T.grid(33, 47):
            with T.sblock("weight"):
                vi, vj = T.axis.remap("SS", [i, j])
                weight[vi, vj] = weight[vi, vj] - T.float32(0.1) * momentum[vi, vj]

    return main
