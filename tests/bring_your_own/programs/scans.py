"""Programs whose order of steps counts.

A scan reads what it has written: its result is an output where it is written first.
"""

from __future__ import annotations

import numpy as np
from tvm.script import tirx as T

from tests.bring_your_own.program import program


@program(lambda x: np.cumsum(x, axis=1), tolerance=1e-3)
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
    lambda x: np.cumprod(x),
    "float64",
    inputs=lambda rng: [rng.uniform(0.9, 1.1, 200)],
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


@program(lambda x: np.maximum.accumulate(x, axis=0), "int32")
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
