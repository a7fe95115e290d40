"""Pooling and interpolation of images."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx

from tests.bring_your_own.program import program


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
