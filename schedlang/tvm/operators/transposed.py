"""Transposed, capsule and fused convolutions, channels last."""

from __future__ import annotations

from typing import Any

from tvm import te

from schedlang.errors import WorkloadError
from schedlang.tvm.operators.convolution import convolve, output_extent, pad
from schedlang.tvm.operators.parts import operands, sum_axes


def T2D(
    height: int = 4,
    width: int = 4,
    in_channels: int = 512,
    out_channels: int = 256,
    kernel_size: int = 4,
    stride: int = 2,
    padding: int = 1,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """Transposed 2-D convolution: in (n, h, w, ci), weight (kh, kw, ci, co), out (n, oh, ow, co).

    The zeros between input elements stay inside the sum, so that unrolling can drop their products.
    """
    border = kernel_size - 1 - padding
    outs = [(extent - 1) * stride - 2 * padding + kernel_size for extent in (height, width)]
    if border < 0:
        raise WorkloadError(
            f"T2D: padding={padding} is too wide for kernel_size={kernel_size}; "
            "it must be less than kernel_size"
        )
    if min(outs) < 1:
        raise WorkloadError(
            f"T2D: padding={padding} leaves an empty output for an input of {height} x {width} "
            f"with kernel_size={kernel_size} and stride={stride}"
        )
    out_dtype, (inputs, weight) = operands(
        dtype,
        out_dtype,
        inputs=(batch, height, width, in_channels),
        weight=(kernel_size, kernel_size, in_channels, out_channels),
    )
    around = (border + stride - 1) // stride
    skipped = (stride - border % stride) % stride  # zeros added by rounding `around` up
    padded = pad(inputs, (0, around, around, 0))
    rh, rw, rc = sum_axes(rh=kernel_size, rw=kernel_size, rc=in_channels)

    def spread(n: Any, h: Any, w: Any, c: Any) -> Any:
        if stride == 1:
            return padded[n, h, w, c]
        on_grid = te.all(te.indexmod(h, stride).equal(0), te.indexmod(w, stride).equal(0))
        value = padded[n, te.indexdiv(h, stride), te.indexdiv(w, stride), c]
        return te.if_then_else(on_grid, value, te.const(0, dtype))

    output = te.compute(
        (batch, *outs, out_channels),
        lambda n, h, w, co: te.sum(
            spread(n, h + rh + skipped, w + rw + skipped, rc).astype(out_dtype)
            * weight[kernel_size - 1 - rh, kernel_size - 1 - rw, rc, co].astype(out_dtype),
            axis=[rh, rw, rc],
        ),
        name="conv2d_transpose",
    )
    return [inputs, weight, output]


def CAP(
    height: int = 16,
    width: int = 16,
    in_channels: int = 32,
    out_channels: int = 32,
    kernel_size: int = 3,
    stride: int = 2,
    padding: int = 1,
    capsule_size: int = 4,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """2-D convolution of matrices: each element is a ``capsule_size`` square matrix.

    in (n, h, w, i, k, ci), weight (kh, kw, k, j, ci, co), out (n, oh, ow, i, j, co). A.2 does not
    list this operator; the default shape is the first of TVM's test-suite.
    """
    size = capsule_size
    out_dtype, (inputs, weight) = operands(
        dtype,
        out_dtype,
        inputs=(batch, height, width, size, size, in_channels),
        weight=(kernel_size, kernel_size, size, size, in_channels, out_channels),
    )
    padded = pad(inputs, (0, padding, padding, 0, 0, 0))
    out_h, out_w = (
        output_extent("CAP", extent, kernel_size, stride, padding) for extent in (height, width)
    )
    rh, rw, rk, rc = sum_axes(rh=kernel_size, rw=kernel_size, rk=size, rc=in_channels)
    output = te.compute(
        (batch, out_h, out_w, size, size, out_channels),
        lambda n, h, w, i, j, co: te.sum(
            padded[n, h * stride + rh, w * stride + rw, i, rk, rc].astype(out_dtype)
            * weight[rh, rw, rk, j, rc, co].astype(out_dtype),
            axis=[rh, rw, rk, rc],
        ),
        name="capsule_conv2d",
    )
    return [inputs, weight, output]


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
