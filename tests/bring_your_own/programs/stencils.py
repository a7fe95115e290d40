"""Neighbourhoods on grids: filters, pooling, interpolation, automata."""

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


def _pooled(x, pool):
    return pool(np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2], (3, 4))


@program(lambda x: _pooled(x, np.max), "int8")
def max_pool_int8():
    x = te.placeholder((6, 23, 25), "int8", name="x")
    a, b = te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    value = lambda c, i, j: te.max(x[c, 2 * i + a, 2 * j + b], axis=[a, b])  # noqa: E731
    return [x, te.compute((6, 11, 12), value, name="pool")]


def _average(x):
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    ones = np.pad(np.ones_like(x), ((0, 0), (1, 1), (1, 1)))
    return _pooled(padded, np.sum) / _pooled(ones, np.sum)


@program(_average)
def average_pool_without_padding():
    x = te.placeholder((8, 15, 15), name="x")
    a, b = te.reduce_axis((0, 3), name="a"), te.reduce_axis((0, 3), name="b")
    zero = tirx.const(0, "float32")

    def term(c, i, j):
        row, column = 2 * i + a - 1, 2 * j + b - 1
        inside = tirx.all(row >= 0, row < 15, column >= 0, column < 15)
        return tirx.if_then_else(inside, x[c, row, column], zero)

    total = te.compute((8, 8, 8), lambda c, i, j: te.sum(term(c, i, j), axis=[a, b]), name="total")

    def covered(i):
        return te.min(2 * i + 2, 15) - te.max(2 * i - 1, 0)

    return [
        x,
        te.compute(
            (8, 8, 8),
            lambda c, i, j: total[c, i, j] / (covered(i) * covered(j)).astype("float32"),
            name="mean",
        ),
    ]


def _bilinear(x):
    at = np.arange(33) * (15 / 32)
    low = np.minimum(at.astype(int), 14)
    part = at - low
    rows = x[low] * (1 - part)[:, None] + x[low + 1] * part[:, None]
    return rows[:, low] * (1 - part) + rows[:, low + 1] * part


@program(_bilinear)
def bilinear_upsampling():
    x = te.placeholder((16, 16), name="x")

    def sampled(i, j):
        def place(k):
            low = te.min(te.indexdiv(k * 15, 32), 14)
            return low, (k * 15 - low * 32).astype("float32") / 32.0

        (a, p), (b, q) = place(i), place(j)
        top = x[a, b] * (1.0 - q) + x[a, b + 1] * q
        bottom = x[a + 1, b] * (1.0 - q) + x[a + 1, b + 1] * q
        return top * (1.0 - p) + bottom * p

    return [x, te.compute((33, 33), sampled, name="up")]


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
