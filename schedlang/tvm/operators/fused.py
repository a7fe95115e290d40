"""Fused subgraphs of networks, from MetaSchedule's appendix A.2."""

from __future__ import annotations

from tvm import te

from schedlang.tvm.operators.convolution import convolve
from schedlang.tvm.operators.parts import operands, sum_axes


def CBR(
    height: int = 224,
    width: int = 224,
    in_channels: int = 3,
    out_channels: int = 64,
    kernel_size: int = 7,
    stride: int = 2,
    padding: int = 3,
    *,
    batch: int = 1,
    dtype: str = "float32",
) -> list[te.Tensor]:
    """relu((conv2d(inputs, weight) + bias) * scale + offset); bias, scale and offset are (co,).

    The order of the parameters is inputs, weight, bias, offset, scale, output. The output has the
    type in which products are summed: ``dtype``, and float32 for bfloat16.
    """
    inputs, weight, conv = convolve(
        "CBR", (height, width), in_channels, out_channels, kernel_size, stride, padding,
        groups=None, batch=batch, dtype=dtype, out_dtype=None,
    )  # fmt: skip
    of_channel = (out_channels,)
    wide, (bias, scale, offset) = operands(
        dtype, None, bias=of_channel, scale=of_channel, offset=of_channel
    )
    shape = conv.shape
    biased = te.compute(
        shape, lambda n, h, w, c: conv[n, h, w, c] + bias[c].astype(wide), name="bias_add"
    )
    scaled = te.compute(
        shape, lambda n, h, w, c: biased[n, h, w, c] * scale[c].astype(wide), name="bn_scale"
    )
    moved = te.compute(
        shape, lambda n, h, w, c: scaled[n, h, w, c] + offset[c].astype(wide), name="bn_offset"
    )
    output = te.compute(
        shape, lambda n, h, w, c: te.max(moved[n, h, w, c], te.const(0, wide)), name="relu"
    )
    return [inputs, weight, bias, offset, scale, output]


def TBG(
    sequence: int = 128,
    heads: int = 12,
    dim: int = 64,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """Attention scores: out[b, h, i, j] = sum over k of query[b, i, h, k] * value[b, j, h, k].

    Both operands are transposed to heads-first in their own stages, as in the paper.
    """
    shape = (batch, sequence, heads, dim)
    out_dtype, (query, value) = operands(dtype, out_dtype, query=shape, value=shape)
    query_t = te.compute(
        (batch, heads, sequence, dim), lambda b, h, s, d: query[b, s, h, d], name="query_transpose"
    )
    value_t = te.compute(
        (batch, heads, dim, sequence), lambda b, h, d, s: value[b, s, h, d], name="value_transpose"
    )
    (k,) = sum_axes(k=dim)
    output = te.compute(
        (batch, heads, sequence, sequence),
        lambda b, h, i, j: te.sum(
            query_t[b, h, i, k].astype(out_dtype) * value_t[b, h, k, j].astype(out_dtype), axis=[k]
        ),
        name="batch_matmul",
    )
    return [query, value, output]
