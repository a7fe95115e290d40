"""Convolutions of torch, of 1, 2 and 3 spatial axes; pooling and interpolation.

TVM's front end ignores arguments of the latter two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from schedlang.tvm.frontends.torch_arguments import (
    Converter,
    accumulator,
    argument,
    cast,
    expected_type,
)
from schedlang.tvm.relax.network_program import shape_of
from schedlang.tvm.values import dtype_of

_LAYOUTS = {3: ("NCW", "OIW", "IOW"), 4: ("NCHW", "OIHW", "IOHW"), 5: ("NCDHW", "OIDHW", "IODHW")}
_CONVOLUTIONS = {3: relax.op.nn.conv1d, 4: relax.op.nn.conv2d, 5: relax.op.nn.conv3d}
_TRANSPOSED = {
    3: relax.op.nn.conv1d_transpose,
    4: relax.op.nn.conv2d_transpose,
    5: relax.op.nn.conv3d_transpose,
}


def _spread(value: Any, count: int) -> list[int]:
    """``2 -> [2, 2]``: torch takes one number for all spatial axes."""
    values = [value] if isinstance(value, int) else list(value)
    return [int(item) for item in (values * count if len(values) == 1 else values)]


_DEFAULTS = {
    "stride": 1, "padding": 0, "dilation": 1, "transposed": False, "output_padding": 0, "groups": 1,
}  # fmt: skip


def _convolution(*names: str, transposed: bool = False) -> Converter:
    """Return the converter of an operator that has these arguments after input, weight and bias."""

    def convert(importer: Any, node: Any) -> Any:
        x, weight, bias = (argument(importer, node, place, "") for place in range(3))
        given = {
            name: argument(importer, node, place, name, _DEFAULTS[name])
            for place, name in enumerate(names, start=3)
        }
        settings = {**_DEFAULTS, "transposed": transposed, **given}
        return convolution(importer, x, weight, bias, **settings)

    return convert


def convolution(
    importer: Any,
    x: Any,
    weight: Any,
    bias: Any,
    *,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    """Emit a convolution of 1, 2 or 3 spatial axes, with or without a batch axis, and its bias."""
    builder = importer.block_builder
    spatial = len(shape_of(weight)) - 2
    batched = len(shape_of(x)) == spatial + 2
    if not batched:
        x = builder.emit(relax.op.expand_dims(x, 0))
    dtype = dtype_of(x)
    layout, straight, turned = _LAYOUTS[spatial + 2]
    options: dict[str, Any] = {
        "strides": _spread(stride, spatial),
        "padding": _spread(padding, spatial) * 2,
        "dilation": _spread(dilation, spatial),
        "groups": groups,
        "data_layout": layout,
        "kernel_layout": turned if transposed else straight,
        "out_dtype": accumulator(dtype),
    }
    if transposed:
        options["output_padding"] = _spread(output_padding, spatial)
    operators = _TRANSPOSED if transposed else _CONVOLUTIONS
    made = cast(importer, builder.emit(operators[spatial + 2](x, weight, **options)), dtype)
    if bias is not None:
        shaped = builder.emit(relax.op.reshape(bias, (1, shape_of(bias)[0], *[1] * spatial)))
        made = builder.emit(relax.op.add(made, shaped))
    return made if batched else builder.emit(relax.op.squeeze(made, [0]))


_plain = _convolution("stride", "padding", "dilation", "groups")
_transposed = _convolution(
    "stride", "padding", "output_padding", "groups", "dilation", transposed=True
)


def _average(divisor_place: int, name: str) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        if argument(importer, node, divisor_place, "divisor_override") is not None:
            raise ValueError("TVM has no average pooling with another divisor")
        return importer.convert_map[name](node)

    return convert


def _resize(method: str, scales_place: int) -> Converter:
    """Interpolation of images; torch decomposes the cases that TVM has no operator for."""

    def convert(importer: Any, node: Any) -> Any:
        x, expected = argument(importer, node, 0, "input"), expected_type(node)
        aligned = scales_place == 3 and bool(argument(importer, node, 2, "align_corners", False))
        scales = argument(importer, node, scales_place, "scale_factors")
        if expected is None:
            raise TypeError("torch gives the result no shape")
        before, after = shape_of(x)[2:], expected[0][2:]
        uneven = scales is not None and any(
            size != scale * extent
            for size, scale, extent in zip(after, scales, before, strict=True)
        )
        if method == "nearest_neighbor" and (
            uneven
            or dtype_of(x) == "float64"
            or any(size % extent for size, extent in zip(after, before, strict=True))
        ):
            return _nearest(importer, x, after, scales)
        if uneven and not aligned:
            raise ValueError("the scale is not the quotient of the sizes")
        if dtype_of(x) == "float64" or (aligned and 1 in after):
            raise ValueError("TVM computes the places in float32, and divides by the last place")
        half = "asymmetric" if method == "nearest_neighbor" else "half_pixel"
        made = relax.op.image.resize2d(
            x,
            after,
            layout="NCHW",
            method=method,
            coordinate_transformation_mode="align_corners" if aligned else half,
            rounding_method="floor" if method == "nearest_neighbor" else "",
            cubic_alpha=-0.75,
        )
        return importer.block_builder.emit(made)

    return convert


def _nearest(importer: Any, x: Any, sizes: Sequence[int], scales: Sequence[float] | None) -> Any:
    """Nearest neighbours as torch chooses them: the floor of the place times the scale."""
    for place, size in enumerate(sizes):
        extent = shape_of(x)[place + 2]
        scale = np.float32(extent / size if scales is None else 1 / scales[place])
        chosen = np.floor(np.arange(size, dtype=np.float32) * scale).clip(0, extent - 1)
        indices = relax.const(chosen.astype(np.int32), "int32")
        x = importer.block_builder.emit(relax.op.take(x, indices, axis=place + 2))
    return x


def _refused(reason: str) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        raise ValueError(reason)

    return convert


IMAGES: dict[str, Converter] = {
    "conv1d.default": _plain,
    "conv2d.default": _plain,
    "conv3d.default": _plain,
    "conv_transpose1d.default": _transposed,
    "conv_transpose2d.input": _transposed,
    "conv_transpose3d.input": _transposed,
    # Torch decomposes all others to this one.
    "convolution.default": _convolution(*_DEFAULTS),
    "avg_pool2d.default": _average(6, "avg_pool2d.default"),
    "avg_pool3d.default": _average(6, "avg_pool3d.default"),
    "upsample_nearest2d.vec": _resize("nearest_neighbor", 2),
    "upsample_bilinear2d.vec": _resize("linear", 3),
    "upsample_bicubic2d.vec": _resize("cubic", 3),
    "_upsample_bilinear2d_aa.default": _refused("TVM has no interpolation with antialias=True"),
    "grid_sampler_2d.default": _refused("TVM ignores how places outside are treated"),
}
