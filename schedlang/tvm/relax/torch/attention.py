"""Scaled dot-product attention: two products and a softmax, without torch's safe softmax.

Torch decomposes attention with a mask into a softmax, a search for rows that are masked as a whole,
and a choice: three more passes over the scores. Here such rows give zeros because the divisor of
the softmax is at least the smallest normal number; that costs one comparison a row.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.relax.torch.arguments import Converter, Hopeless, accumulator, argument, cast
from schedlang.tvm.values import dtype_of


def _attention(importer: Any, node: Any) -> Any:
    builder = importer.block_builder
    query, key, value = (argument(importer, node, place, "") for place in range(3))
    mask = argument(importer, node, 3, "attn_mask")
    if argument(importer, node, 4, "dropout_p", 0.0) > 0:
        raise Hopeless("it drops values at random, as in training; export the model in eval mode")
    causal = argument(importer, node, 5, "is_causal", False)
    scale = argument(importer, node, 6, "scale")
    if argument(importer, node, 7, "enable_gqa", False):
        key, value = (_repeated(builder, tensor, shape_of(query)[-3]) for tensor in (key, value))
    dtype, rank = dtype_of(query), len(shape_of(query))
    wide = accumulator(dtype)
    turned = [*range(rank - 2), rank - 1, rank - 2]
    transposed = builder.emit(relax.op.permute_dims(key, turned))
    scores = builder.emit(relax.op.matmul(query, transposed, wide))
    factor = 1 / math.sqrt(shape_of(query)[-1]) if scale is None else scale
    scores = builder.emit(relax.op.multiply(scores, relax.const(factor, wide)))
    if causal:
        allowed = np.tril(np.ones(shape_of(scores)[-2:], dtype=bool))
        scores = _kept(builder, scores, relax.const(allowed), wide)
    elif mask is not None and dtype_of(mask) == "bool":
        scores = _kept(builder, scores, mask, wide)
    elif mask is not None:
        scores = builder.emit(relax.op.add(scores, cast(importer, mask, wide)))
    if mask is None:
        weights = builder.emit(relax.op.nn.softmax(scores))
    else:
        weights = builder.emit_te(masked_softmax, scores, primfunc_name_hint="masked_softmax")
    weights = cast(importer, weights, dtype)
    return cast(importer, builder.emit(relax.op.matmul(weights, value, wide)), dtype)


def _repeated(builder: Any, tensor: Any, heads: int) -> Any:
    count = heads // shape_of(tensor)[-3]
    return tensor if count == 1 else builder.emit(relax.op.repeat(tensor, count, -3))


def _kept(builder: Any, scores: Any, allowed: Any, dtype: str) -> Any:
    return builder.emit(relax.op.where(allowed, scores, relax.const(-math.inf, dtype)))


def masked_softmax(scores: te.Tensor) -> te.Tensor:
    """Return the softmax over the last axis; a row of ``-inf`` gives zeros."""
    shape = [int(extent) for extent in scores.shape]
    rows, columns = shape[:-1], shape[-1]
    first, second = (te.reduce_axis((0, columns), name=name) for name in ("k", "k2"))
    # The identity of `te.max` is the lowest finite number, so a masked row has a finite maximum.
    maximum = te.compute(
        rows, lambda *i: te.max(scores[(*i, first)], axis=first), name="T_softmax_maxelem"
    )
    exponential = te.compute(
        shape, lambda *i: te.exp(scores[i] - maximum[i[:-1]]), name="T_softmax_exp"
    )
    total = te.compute(
        rows, lambda *i: te.sum(exponential[(*i, second)], axis=second), name="T_softmax_expsum"
    )
    smallest = tirx.const(float(np.finfo(str(scores.dtype)).tiny), str(scores.dtype))
    return te.compute(
        shape,
        lambda *i: exponential[i] / tirx.max(total[i[:-1]], smallest),
        name="T_softmax_norm",
    )


ATTENTION: dict[str, Converter] = {"scaled_dot_product_attention.default": _attention}
