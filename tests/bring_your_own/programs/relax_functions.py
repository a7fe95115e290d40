"""What a user of Relax has: the one function that a small model becomes after fusion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import IRModule

from tests.bring_your_own.program import program


def _fused(shapes: list[tuple[int, ...]], build: Callable[..., Any]) -> IRModule:
    """Legalise and fuse a model; the PrimFunc that is left, with the others of the module."""
    builder = relax.BlockBuilder()
    inputs = [
        relax.Var(f"x{number}", relax.TensorType(shape, "float32"))
        for number, shape in enumerate(shapes)
    ]
    with builder.function("forward", inputs):
        with builder.dataflow():
            out = builder.emit_output(builder.normalize(build(*inputs)))
        builder.emit_func_output(out)
    mod = builder.get()
    for transform in (
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ):
        mod = transform(mod)
    return mod


@program(lambda x, w, bias: np.maximum(x @ w + bias, 0))
def relax_dense_relu():
    op = relax.op
    return _fused(
        [(30, 44), (44, 52), (52,)],
        lambda x, w, bias: op.nn.relu(op.add(op.matmul(x, w), bias)),
    )


def _layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


@program(_layer_norm)
def relax_layer_norm():
    return _fused(
        [(25, 60), (60,), (60,)],
        lambda x, gain, bias: relax.op.nn.layer_norm(x, gain, bias, axes=-1),
    )


def _log_softmax(x):
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


@program(_log_softmax)
def relax_log_softmax():
    return _fused([(32, 50)], lambda x: relax.op.nn.log_softmax(x, axis=-1))


def _conv(x, w, bias):
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))
    return np.maximum(np.einsum("nchwab,ocab->nohw", windows, w) + bias, 0)


@program(_conv)
def relax_conv2d_bias_relu():
    op = relax.op
    return _fused(
        [(1, 6, 13, 13), (10, 6, 3, 3), (1, 10, 1, 1)],
        lambda x, w, bias: op.nn.relu(op.add(op.nn.conv2d(x, w, padding=1), bias)),
    )


@program(lambda x: np.var(x, axis=(1, 2)))
def relax_variance():
    return _fused([(9, 20, 21)], lambda x: relax.op.variance(x, axis=[1, 2]))
