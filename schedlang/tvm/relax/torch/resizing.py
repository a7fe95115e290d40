"""Pooling and interpolation of torch, where TVM's front end ignores arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax

from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.relax.torch.arguments import Converter, argument, expected_type
from schedlang.tvm.values import dtype_of


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


RESIZING: dict[str, Converter] = {
    "avg_pool2d.default": _average(6, "avg_pool2d.default"),
    "avg_pool3d.default": _average(6, "avg_pool3d.default"),
    "upsample_nearest2d.vec": _resize("nearest_neighbor", 2),
    "upsample_bilinear2d.vec": _resize("linear", 3),
    "upsample_bicubic2d.vec": _resize("cubic", 3),
    "_upsample_bilinear2d_aa.default": _refused("TVM has no interpolation with antialias=True"),
    "grid_sampler_2d.default": _refused("TVM ignores how places outside are treated"),
}
