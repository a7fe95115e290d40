"""Convolutions: strided, dilated, grouped, depthwise, transposed, quantised."""

from __future__ import annotations

import itertools

import numpy as np
from tvm import te, tirx

from tests.bring_your_own.program import program


def _convolved(x, w, stride=1, dilation=1, groups=1):
    """Any number of spatial dimensions, without padding: (c, ...) and (o, c / groups, ...)."""
    spatial = w.shape[2:]
    out = [
        (n - dilation * (k - 1) - 1) // stride + 1
        for n, k in zip(x.shape[1:], spatial, strict=True)
    ]
    result = np.zeros((w.shape[0], *out), np.result_type(x, w))
    per_group, read = w.shape[0] // groups, w.shape[1]
    for o in range(w.shape[0]):
        channels = x[o // per_group * read :][:read]
        for place in itertools.product(*map(range, spatial)):
            window = tuple(
                slice(p * dilation, p * dilation + stride * (n - 1) + 1, stride)
                for p, n in zip(place, out, strict=True)
            )
            weights = w[(o, slice(None), *place)]
            result[o] += np.tensordot(weights, channels[(slice(None), *window)], 1)
    return result


def _axes(*extents):
    return [te.reduce_axis((0, extent), name=f"r{n}") for n, extent in enumerate(extents)]


@program(lambda x, w: _convolved(x, w, stride=2, dilation=3))
def conv2d_strided_and_dilated():
    x = te.placeholder((5, 24, 25), name="x")
    w = te.placeholder((8, 5, 3, 3), name="w")
    c, a, b = _axes(5, 3, 3)
    value = lambda o, i, j: te.sum(  # noqa: E731
        x[c, 2 * i + 3 * a, 2 * j + 3 * b] * w[o, c, a, b], axis=[c, a, b]
    )
    return [x, w, te.compute((8, 9, 10), value, name="out")]


@program(lambda x, w: _convolved(np.pad(x, ((0, 0), (1, 1), (1, 1))), w, groups=3))
def group_conv2d_with_padding():
    x = te.placeholder((12, 11, 11), name="x")
    w = te.placeholder((9, 4, 3, 3), name="w")
    c, a, b = _axes(4, 3, 3)
    zero = tirx.const(0, "float32")
    padded = te.compute(
        (12, 13, 13),
        lambda n, i, j: tirx.if_then_else(
            tirx.all(i >= 1, i < 12, j >= 1, j < 12), x[n, i - 1, j - 1], zero
        ),
        name="padded",
    )
    value = lambda o, i, j: te.sum(  # noqa: E731
        padded[te.indexdiv(o, 3) * 4 + c, i + a, j + b] * w[o, c, a, b], axis=[c, a, b]
    )
    return [x, w, te.compute((9, 11, 11), value, name="out")]


@program(lambda x, w: _convolved(x, w[:, None], groups=6))
def depthwise_conv3d():
    x = te.placeholder((6, 8, 9, 10), name="x")
    w = te.placeholder((6, 3, 3, 3), name="w")
    a, b, d = _axes(3, 3, 3)
    value = lambda c, i, j, k: te.sum(  # noqa: E731
        x[c, i + a, j + b, k + d] * w[c, a, b, d], axis=[a, b, d]
    )
    return [x, w, te.compute((6, 6, 7, 8), value, name="out")]


def _transposed(x, w):
    out = np.zeros((5, 2 * 29 + 4))
    for i in range(30):
        out[:, 2 * i : 2 * i + 4] += np.einsum("c,cok->ok", x[:, i], w)
    return out


@program(_transposed)
def transposed_conv1d():
    x = te.placeholder((7, 30), name="x")
    w = te.placeholder((7, 5, 4), name="w")
    c, k = _axes(7, 4)
    zero = tirx.const(0, "float32")

    def term(o, i):
        place = i - k
        inside = tirx.all(place >= 0, te.indexmod(place, 2) == 0, place < 60)
        return tirx.if_then_else(inside, x[c, te.indexdiv(place, 2)] * w[c, o, k], zero)

    return [x, w, te.compute((5, 62), lambda o, i: te.sum(term(o, i), axis=[c, k]), name="out")]


def _quantised(x, w):
    total = _convolved(x.astype(np.int64) - 128, w.astype(np.int64))
    return np.clip(np.round(total * 2.0**-9), -128, 127)


@program(_quantised, "uint8")
def quantised_conv2d():
    """uint8 with a zero point times int8, and int8 out of it."""
    x = te.placeholder((6, 12, 12), "uint8", name="x")
    w = te.placeholder((7, 6, 3, 3), "int8", name="w")
    c, a, b = _axes(6, 3, 3)

    def term(o, i, j):
        return (x[c, i + a, j + b].astype("int32") - 128) * w[o, c, a, b].astype("int32")

    total = te.compute(
        (7, 10, 10), lambda o, i, j: te.sum(term(o, i, j), axis=[c, a, b]), name="total"
    )
    low, high = tirx.const(-128.0, "float32"), tirx.const(127.0, "float32")
    real = lambda *i: te.round(total(*i).astype("float32") * 2.0**-9)  # noqa: E731
    return [
        x,
        w,
        te.compute(
            total.shape, lambda *i: te.max(te.min(real(*i), high), low).astype("int8"), name="out"
        ),
    ]


def _squeezed(x, w1, w2):
    hidden = np.maximum(w1 @ x.mean((1, 2)), 0)
    return x / (1 + np.exp(-(w2 @ hidden)))[:, None, None]


@program(_squeezed)
def squeeze_and_excite():
    x = te.placeholder((16, 9, 10), name="x")
    w1, w2 = te.placeholder((4, 16), name="w1"), te.placeholder((16, 4), name="w2")
    i, j = te.reduce_axis((0, 9), name="i"), te.reduce_axis((0, 10), name="j")
    c, h = te.reduce_axis((0, 16), name="c"), te.reduce_axis((0, 4), name="h")
    mean = te.compute((16,), lambda k: te.sum(x[k, i, j] * (1 / 90), axis=[i, j]), name="mean")
    hidden = te.compute((4,), lambda k: te.sum(w1[k, c] * mean[c], axis=c), name="hidden")
    zero = tirx.const(0, "float32")
    active = te.compute((4,), lambda k: te.max(hidden[k], zero), name="active")
    gate = te.compute((16,), lambda k: te.sum(w2[k, h] * active[h], axis=h), name="gate")
    return [
        x,
        w1,
        w2,
        te.compute(x.shape, lambda k, a, b: x[k, a, b] * te.sigmoid(gate[k]), name="out"),
    ]
