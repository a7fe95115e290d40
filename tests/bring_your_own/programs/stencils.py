"""Neighbourhoods on grids: filters, borders, automata."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx
from tvm.script import tirx as T

from tests.bring_your_own.program import program


@program(lambda x: (x[:-2] + 2 * x[1:-1] + x[2:]) / 4)
def blur_1d():
    x = te.placeholder((515,), name="x")
    value = lambda i: (x[i] + 2.0 * x[i + 1] + x[i + 2]) * 0.25  # noqa: E731
    return [x, te.compute((513,), value, name="blur")]


def _heat(x):
    y = x.copy()
    y[1:-1, 1:-1] += 0.1 * (
        x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] - 4 * x[1:-1, 1:-1]
    )
    return y


@program(_heat)
def heat_step_with_fixed_border():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((50, 53), "float32"), y: T.Buffer((50, 53), "float32")):
        for i, j in T.grid(50, 53):
            with T.sblock("heat"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = T.if_then_else(
                    vi > 0 and vi < 49 and vj > 0 and vj < 52,
                    x[vi, vj]
                    + T.float32(0.1)
                    * (
                        x[vi - 1, vj]
                        + x[vi + 1, vj]
                        + x[vi, vj - 1]
                        + x[vi, vj + 1]
                        - T.float32(4) * x[vi, vj]
                    ),
                    x[vi, vj],
                )

    return main


def _jacobi(x):
    for _ in range(3):
        x = 0.25 * sum(np.roll(x, shift, axis) for shift in (1, -1) for axis in (0, 1))
    return x


@program(_jacobi)
def three_periodic_jacobi_steps():
    def step(x, name):
        def mean(i, j):
            rows = x[te.indexmod(i + 31, 32), j] + x[te.indexmod(i + 1, 32), j]
            return 0.25 * (rows + x[i, te.indexmod(j + 35, 36)] + x[i, te.indexmod(j + 1, 36)])

        return te.compute((32, 36), mean, name=name)

    x = te.placeholder((32, 36), name="x")
    return [x, step(step(step(x, "first"), "second"), "third")]


def _life(x):
    near = sum(
        np.roll(x, (a, b), (0, 1)) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)
    )
    return (near == 3) | ((near == 2) & (x == 1))


@program(
    _life, "uint8", inputs=lambda rng: [rng.integers(0, 2, (40, 40)).astype("uint8")], judged=True
)
def game_of_life_uint8():
    x = te.placeholder((40, 40), "uint8", name="x")
    a, b = te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    near = te.compute(
        (40, 40),
        lambda i, j: te.sum(x[te.indexmod(i + a + 39, 40), te.indexmod(j + b + 39, 40)], [a, b]),
        name="near",
    )
    three, four = tirx.const(3, "uint8"), tirx.const(4, "uint8")
    alive = lambda i, j: tirx.any(  # noqa: E731
        near[i, j] == three, tirx.all(near[i, j] == four, x[i, j] > tirx.const(0, "uint8"))
    )
    return [x, te.compute((40, 40), lambda i, j: alive(i, j).astype("uint8"), name="next")]


def _sobel(x):
    kernel = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]])
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3))
    across, down = ((windows * k).sum((2, 3)) for k in (kernel, kernel.T))
    return np.abs(across) + np.abs(down)


@program(_sobel, "int16")
def sobel_int16():
    x = te.placeholder((35, 38), "int16", name="x")
    w = lambda i, j: x[i, j].astype("int32")  # noqa: E731

    def edge(i, j):
        right = w(i, j + 2) + 2 * w(i + 1, j + 2) + w(i + 2, j + 2)
        left = w(i, j) + 2 * w(i + 1, j) + w(i + 2, j)
        bottom = w(i + 2, j) + 2 * w(i + 2, j + 1) + w(i + 2, j + 2)
        top = w(i, j) + 2 * w(i, j + 1) + w(i, j + 2)
        return te.abs(right - left) + te.abs(bottom - top)

    return [x, te.compute((33, 36), edge, name="edges")]


@program(lambda x: np.median(np.stack([x[:-2], x[1:-1], x[2:]]), axis=0))
def median_of_three():
    x = te.placeholder((600,), name="x")

    def median(i):
        a, b, c = x[i], x[i + 1], x[i + 2]
        return te.max(te.min(a, b), te.min(te.max(a, b), c))

    return [x, te.compute((598,), median, name="median")]


def _laplacian(x):
    inner = (slice(1, -1),) * 3
    total = -6 * x[inner]
    for axis in range(3):
        for shift in (1, -1):
            total = total + np.roll(x, shift, axis)[inner]
    return total


@program(_laplacian, "float64")
def laplacian_3d_float64():
    @T.prim_func(s_tir=True)
    def main(x: T.Buffer((14, 16, 18), "float64"), y: T.Buffer((12, 14, 16), "float64")):
        for i, j, k in T.grid(12, 14, 16):
            with T.sblock("laplacian"):
                vi, vj, vk = T.axis.remap("SSS", [i, j, k])
                y[vi, vj, vk] = (
                    x[vi, vj + 1, vk + 1]
                    + x[vi + 2, vj + 1, vk + 1]
                    + x[vi + 1, vj, vk + 1]
                    + x[vi + 1, vj + 2, vk + 1]
                    + x[vi + 1, vj + 1, vk]
                    + x[vi + 1, vj + 1, vk + 2]
                    - T.float64(6) * x[vi + 1, vj + 1, vk + 1]
                )

    return main
