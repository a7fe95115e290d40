"""Layers of neural networks: normalisations, gates, positions."""

from __future__ import annotations

import numpy as np
from tvm import te, tirx

from tests.bring_your_own.program import program
from tests.bring_your_own.sums import sum_over


def _normalised(x, axes):
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + 1e-5)


@program(lambda x, gain, bias: _normalised(x, -1) * gain + bias)
def layer_norm():
    x = te.placeholder((30, 72), name="x")
    gain, bias = te.placeholder((72,), name="gain"), te.placeholder((72,), name="bias")
    mean = sum_over((30,), 72, lambda i, k: x[i, k] * (1 / 72), "mean")
    square = lambda i, k: (x[i, k] - mean[i]) * (x[i, k] - mean[i]) * (1 / 72)  # noqa: E731
    variance = sum_over((30,), 72, square, "variance")
    scaled = lambda i, j: (x[i, j] - mean[i]) * te.rsqrt(variance[i] + 1e-5)  # noqa: E731
    return [
        x,
        gain,
        bias,
        te.compute(x.shape, lambda i, j: scaled(i, j) * gain[j] + bias[j], name="out"),
    ]


def _rms(x, gain):
    wide = x.astype(np.float32)
    return wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * gain.astype(np.float32)


@program(_rms, "bfloat16")
def rms_norm_bfloat16():
    x = te.placeholder((26, 64), "bfloat16", name="x")
    gain = te.placeholder((64,), "bfloat16", name="gain")
    wide = lambda i, k: x[i, k].astype("float32")  # noqa: E731
    square = sum_over((26,), 64, lambda i, k: wide(i, k) * wide(i, k), "square")
    value = lambda i, j: wide(i, j) * te.rsqrt(square[i] / 64.0 + 1e-5)  # noqa: E731
    return [
        x,
        gain,
        te.compute(
            x.shape,
            lambda i, j: (value(i, j) * gain[j].astype("float32")).astype("bfloat16"),
            name="out",
        ),
    ]


@program(lambda x: _normalised(x.reshape(2, 4, -1), -1).reshape(x.shape))
def group_norm():
    x = te.placeholder((2, 12, 8, 9), name="x")
    size = 3 * 8 * 9

    def element(n, g, k):
        return x[
            n, g * 3 + te.indexdiv(k, 72), te.indexdiv(te.indexmod(k, 72), 9), te.indexmod(k, 9)
        ]

    mean = sum_over((2, 4), size, lambda n, g, k: element(n, g, k) * (1 / size), "mean")
    square = lambda n, g, k: te.power(element(n, g, k) - mean[n, g], 2.0) * (1 / size)  # noqa: E731
    variance = sum_over((2, 4), size, square, "variance")

    def out(n, c, h, w):
        g = te.indexdiv(c, 3)
        return (x[n, c, h, w] - mean[n, g]) * te.rsqrt(variance[n, g] + 1e-5)

    return [x, te.compute(x.shape, out, name="out")]


def _batch_norm(x, mean, variance, gain, bias):
    shape = (1, -1, 1, 1)
    scale = gain / np.sqrt(variance + 1e-5)
    return np.maximum((x - mean.reshape(shape)) * scale.reshape(shape) + bias.reshape(shape), 0)


@program(
    _batch_norm,
    inputs=lambda rng: [
        rng.uniform(-1, 1, (2, 10, 9, 9)).astype("float32"),
        rng.uniform(-1, 1, 10).astype("float32"),
        rng.uniform(0.1, 1, 10).astype("float32"),
        rng.uniform(-1, 1, 10).astype("float32"),
        rng.uniform(-1, 1, 10).astype("float32"),
    ],
)
def batch_norm_inference_relu():
    x = te.placeholder((2, 10, 9, 9), name="x")
    mean, variance, gain, bias = (
        te.placeholder((10,), name=name) for name in ("mean", "variance", "gain", "bias")
    )
    scale = te.compute((10,), lambda c: gain[c] / te.sqrt(variance[c] + 1e-5), name="scale")
    zero = tirx.const(0, "float32")
    value = lambda n, c, h, w: (x[n, c, h, w] - mean[c]) * scale[c] + bias[c]  # noqa: E731
    return [
        x,
        mean,
        variance,
        gain,
        bias,
        te.compute(x.shape, lambda *i: te.max(value(*i), zero), name="out"),
    ]


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


@program(lambda x, gate, up: (x @ gate) * _sigmoid(x @ gate) * (x @ up))
def swiglu():
    x = te.placeholder((16, 40), name="x")
    gate, up = te.placeholder((40, 56), name="gate"), te.placeholder((40, 56), name="up")
    a = sum_over((16, 56), 40, lambda i, j, k: x[i, k] * gate[k, j], "a")
    b = sum_over((16, 56), 40, lambda i, j, k: x[i, k] * up[k, j], "b")
    return [
        x,
        gate,
        up,
        te.compute((16, 56), lambda i, j: a[i, j] * te.sigmoid(a[i, j]) * b[i, j], name="out"),
    ]


def _rotated(x, cosine, sine):
    even, odd = x[..., ::2], x[..., 1::2]
    c, s = cosine[:, None], sine[:, None]
    return np.stack([even * c - odd * s, even * s + odd * c], axis=-1).reshape(x.shape)


@program(_rotated)
def rotary_embedding():
    x = te.placeholder((20, 4, 32), name="x")
    cosine, sine = te.placeholder((20, 16), name="cosine"), te.placeholder((20, 16), name="sine")

    def turned(t, h, d):
        pair = te.indexdiv(d, 2)
        c, s = cosine[t, pair], sine[t, pair]
        even, odd = x[t, h, pair * 2], x[t, h, pair * 2 + 1]
        return tirx.Select(te.indexmod(d, 2) == 0, even * c - odd * s, even * s + odd * c)

    return [x, cosine, sine, te.compute(x.shape, turned, name="turned")]


def _lstm(x, h, c, wx, wh, bias):
    i, f, g, o = np.split(x @ wx + h @ wh + bias, 4, axis=1)
    cell = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return cell, _sigmoid(o) * np.tanh(cell)


@program(_lstm)
def lstm_cell():
    """Two outputs: the new cell, which the other one reads, and the new hidden state."""
    batch, size, units = 6, 20, 24
    x, h = te.placeholder((batch, size), name="x"), te.placeholder((batch, units), name="h")
    c, bias = te.placeholder((batch, units), name="c"), te.placeholder((4 * units,), name="bias")
    wx = te.placeholder((size, 4 * units), name="wx")
    wh = te.placeholder((units, 4 * units), name="wh")
    from_x = sum_over((batch, 4 * units), size, lambda b, j, k: x[b, k] * wx[k, j], "from_x")
    from_h = sum_over((batch, 4 * units), units, lambda b, j, k: h[b, k] * wh[k, j], "from_h")
    gates = te.compute(from_x.shape, lambda b, j: from_x[b, j] + from_h[b, j] + bias[j], name="g")
    gate = lambda b, j, n: gates[b, j + n * units]  # noqa: E731
    cell = te.compute(
        (batch, units),
        lambda b, j: (
            te.sigmoid(gate(b, j, 1)) * c[b, j] + te.sigmoid(gate(b, j, 0)) * te.tanh(gate(b, j, 2))
        ),
        name="cell",
    )
    hidden = te.compute(
        (batch, units), lambda b, j: te.sigmoid(gate(b, j, 3)) * te.tanh(cell[b, j]), name="hidden"
    )
    return [x, h, c, wx, wh, bias, cell, hidden]
