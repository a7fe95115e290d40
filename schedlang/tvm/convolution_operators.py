"""The standard convolutions as tensor expressions, channels last (MetaSchedule's appendix A.2).

The defaults are the configurations of the paper. An operator first copies its input into a tensor
padded with zeros, also if ``padding`` is 0; the schedule may inline the copy. Products of int8 are
summed in int32 and those of bfloat16 in float32, unless ``out_dtype`` is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import te

from schedlang.errors import WorkloadError
from schedlang.tvm.tensor_expressions import operands, sum_axes


def C1D(
    length: int = 256,
    in_channels: int = 64,
    out_channels: int = 128,
    kernel_size: int = 3,
    stride: int = 2,
    padding: int = 1,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """1-D convolution: in (n, l, ci), weight (kl, ci, co), out (n, ol, co)."""
    return convolve(
        "C1D", (length,), in_channels, out_channels, kernel_size, stride, padding,
        batch=batch, dtype=dtype, out_dtype=out_dtype,
    )  # fmt: skip


def C2D(
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
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """2-D convolution: in (n, h, w, ci), weight (kh, kw, ci, co), out (n, oh, ow, co)."""
    return convolve(
        "C2D", (height, width), in_channels, out_channels, kernel_size, stride, padding,
        batch=batch, dtype=dtype, out_dtype=out_dtype,
    )  # fmt: skip


def C3D(
    depth: int = 16,
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
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """3-D convolution: in (n, d, h, w, ci), weight (kd, kh, kw, ci, co), out as ``in`` with co."""
    return convolve(
        "C3D", (depth, height, width), in_channels, out_channels, kernel_size, stride, padding,
        batch=batch, dtype=dtype, out_dtype=out_dtype,
    )  # fmt: skip


def DEP(
    height: int = 112,
    width: int = 112,
    channels: int = 32,
    kernel_size: int = 3,
    stride: int = 1,
    padding: int = 1,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """Depthwise 2-D convolution: in (n, h, w, c), weight (1, kh, kw, c), out (n, oh, ow, c)."""
    out_dtype, (inputs, weight) = operands(
        dtype,
        out_dtype,
        inputs=(batch, height, width, channels),
        weight=(1, kernel_size, kernel_size, channels),
    )
    padded = pad(inputs, (0, padding, padding, 0))
    out_h, out_w = (
        output_extent("DEP", extent, kernel_size, stride, padding) for extent in (height, width)
    )
    rh, rw = sum_axes(rh=kernel_size, rw=kernel_size)
    output = te.compute(
        (batch, out_h, out_w, channels),
        lambda n, h, w, c: te.sum(
            padded[n, h * stride + rh, w * stride + rw, c].astype(out_dtype)
            * weight[0, rh, rw, c].astype(out_dtype),
            axis=[rh, rw],
        ),
        name="depthwise_conv2d",
    )
    return [inputs, weight, output]


def DIL(
    height: int = 224,
    width: int = 224,
    in_channels: int = 3,
    out_channels: int = 64,
    kernel_size: int = 7,
    stride: int = 2,
    padding: int = 3,
    dilation: int = 2,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """2-D convolution that reads every ``dilation``-th element; shapes as in ``C2D``."""
    return convolve(
        "DIL", (height, width), in_channels, out_channels, kernel_size, stride, padding,
        dilation=dilation, batch=batch, dtype=dtype, out_dtype=out_dtype,
    )  # fmt: skip


def GRP(
    height: int = 56,
    width: int = 56,
    in_channels: int = 64,
    out_channels: int = 128,
    kernel_size: int = 3,
    stride: int = 2,
    padding: int = 1,
    groups: int = 4,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """2-D convolution in ``groups`` groups of channels: weight (kh, kw, ci/groups, co)."""
    return convolve(
        "GRP", (height, width), in_channels, out_channels, kernel_size, stride, padding,
        groups=groups, batch=batch, dtype=dtype, out_dtype=out_dtype,
    )  # fmt: skip


def convolve(
    name: str,
    extents: Sequence[int],
    in_channels: int,
    out_channels: int,
    kernel_size: int,
    stride: int,
    padding: int,
    *,
    dilation: int = 1,
    groups: int | None = 1,
    batch: int,
    dtype: str,
    out_dtype: str | None,
) -> list[te.Tensor]:
    """Define a channels-last convolution over ``len(extents)`` dimensions.

    Returns [inputs, weight, output]. With ``groups=1`` the index of the input channel still
    contains a term in ``co``, which is 0; with ``groups=None`` it does not. Both reproduce the
    programs of TVM's test-suite exactly, so tuning records are interchangeable.
    """
    for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
        if channels % (groups or 1):
            raise WorkloadError(f"{name}: groups={groups} does not divide {what}={channels}")
    rank = len(extents)
    group_in, group_out = in_channels // (groups or 1), out_channels // (groups or 1)
    out_dtype, (inputs, weight) = operands(
        dtype,
        out_dtype,
        inputs=(batch, *extents, in_channels),
        weight=(*[kernel_size] * rank, group_in, out_channels),
    )
    padded = pad(inputs, (0, *[padding] * rank, 0))
    outs = [output_extent(name, e, kernel_size, stride, padding, dilation) for e in extents]
    spatial_names = "dhw"[-rank:] if rank > 1 else "l"
    *window, rc = sum_axes(**{f"r{letter}": kernel_size for letter in spatial_names}, rc=group_in)

    def multiply_and_sum(*position: Any) -> Any:
        n, *spatial, co = position
        read = [x * stride + r * dilation for x, r in zip(spatial, window, strict=True)]
        channel = rc if groups is None else co // group_out * group_in + rc
        value = padded[(n, *read, channel)]
        factor = weight[(*window, rc, co)]
        return te.sum(value.astype(out_dtype) * factor.astype(out_dtype), axis=[*window, rc])

    output = te.compute(
        (batch, *outs, out_channels),
        multiply_and_sum,
        name=f"conv{rank}d",
        varargs_names=["n", *spatial_names, "co"],
    )
    return [inputs, weight, output]


def pad(inputs: te.Tensor, before_and_after: Sequence[int]) -> te.Tensor:
    """Copy ``inputs`` with ``before_and_after[k]`` zeros on both sides of dimension k."""
    shape = [int(extent) for extent in inputs.shape]

    def value(*position: Any) -> Any:
        read = [x - p if p else x for x, p in zip(position, before_and_after, strict=True)]
        inside = [
            condition
            for x, p, extent in zip(position, before_and_after, shape, strict=True)
            if p
            for condition in (x >= p, x < extent + p)
        ]
        if not inside:
            return inputs[tuple(read)]
        return te.if_then_else(te.all(*inside), inputs[tuple(read)], te.const(0, inputs.dtype))

    padded_shape = [e + 2 * p for e, p in zip(shape, before_and_after, strict=True)]
    return te.compute(padded_shape, value, name="padded")


def output_extent(
    name: str, extent: int, kernel_size: int, stride: int, padding: int, dilation: int = 1
) -> int:
    """Return a convolution's output extent; WorkloadError if the window exceeds the input."""
    room = extent + 2 * padding - dilation * (kernel_size - 1) - 1
    if room < 0:
        raise WorkloadError(
            f"{name}: a window of kernel_size={kernel_size} (dilation {dilation}) does not fit in "
            f"an input of {extent} with padding={padding}; the output would be empty"
        )
    return room // stride + 1


# -- Transposed, capsule and fused convolutions ---------------------------------------------------


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
