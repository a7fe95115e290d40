"""Attention, with masks, and softmax."""

from __future__ import annotations

import math

import numpy as np
from tvm import te, tirx

from tests.bring_your_own.program import program
from tests.bring_your_own.sums import sum_over


def _softmax(x):
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def _attention(q, k, v, mask=None):
    """Attention of (heads, rows, size) tensors; ``mask(i, j)`` says what row i may read."""
    heads, rows, size = (int(extent) for extent in q.shape)
    low = tirx.const(-1e9, "float32")
    scores = sum_over(
        (heads, rows, rows), size, lambda h, i, j, d: q[h, i, d] * k[h, j, d], "scores"
    )
    scale = 1 / math.sqrt(size)

    def allowed(h, i, j):
        scaled = scores[h, i, j] * scale
        return scaled if mask is None else tirx.Select(mask(i, j), scaled, low)

    masked = te.compute(scores.shape, allowed, name="masked")
    r = te.reduce_axis((0, rows), name="r")
    top = te.compute((heads, rows), lambda h, i: te.max(masked[h, i, r], axis=r), name="top")
    raised = te.compute(
        scores.shape, lambda h, i, j: te.exp(masked[h, i, j] - top[h, i]), name="raised"
    )
    total = sum_over((heads, rows), rows, lambda h, i, j: raised[h, i, j], "total")
    weighted = sum_over(q.shape, rows, lambda h, i, d, j: raised[h, i, j] * v[h, j, d], "weighted")
    return te.compute(q.shape, lambda h, i, d: weighted[h, i, d] / total[h, i], name="out")


def _expected_attention(q, k, v, mask=True):
    scores = q @ k.transpose(0, 2, 1) / math.sqrt(q.shape[-1])
    return _softmax(np.where(mask, scores, -1e9)) @ v


def _three(shape):
    return [te.placeholder(shape, name=name) for name in "qkv"]


@program(_expected_attention)
def attention():
    given = _three((1, 40, 24))
    return [*given, _attention(*given)]


@program(lambda q, k, v: _expected_attention(q, k, v, np.tri(32, dtype=bool)))
def causal_attention():
    given = _three((2, 32, 16))
    return [*given, _attention(*given, mask=lambda i, j: j <= i)]


@program(lambda q, k, v, m: _expected_attention(q, k, v, m[None, None, :]), "bool")
def masked_attention():
    given = _three((2, 24, 16))
    mask = te.placeholder((24,), "bool", name="mask")
    return [*given, mask, _attention(*given, mask=lambda i, j: mask[j])]


@program(_softmax)
def softmax_tiny():
    x = te.placeholder((8, 8), name="x")
    k = te.reduce_axis((0, 8), name="k")
    top = te.compute((8,), lambda i: te.max(x[i, k], axis=k), name="top")
    raised = te.compute(x.shape, lambda i, j: te.exp(x[i, j] - top[i]), name="raised")
    total = sum_over((8,), 8, lambda i, j: raised[i, j], "total")
    return [x, te.compute(x.shape, lambda i, j: raised[i, j] / total[i], name="out")]
