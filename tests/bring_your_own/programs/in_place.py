"""Programs that overwrite what they read."""

from __future__ import annotations

import numpy as np
from tvm.script import from_source, tirx as T

from tests.bring_your_own.program import program


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
