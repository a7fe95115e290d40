"""Elements of tensors at indices: embeddings, selections and slices of torch."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from schedlang.tvm.relax.integer_ranges import check_call, index_check, outside
from schedlang.tvm.relax.network_program import shape_of
from schedlang.tvm.relax.torch_arguments import (
    Converter,
    Hopeless,
    accumulator,
    argument,
    cast,
    expected_type,
)
from schedlang.tvm.values import dtype_of, is_integer


def _embedding(importer: Any, node: Any) -> Any:
    weight, indices = argument(importer, node, 0, "weight"), argument(importer, node, 1, "indices")
    return importer.block_builder.emit(relax.op.take(weight, indices, axis=0))


def _index_select(importer: Any, node: Any) -> Any:
    x, axis, index = (argument(importer, node, place, "") for place in range(3))
    return importer.block_builder.emit(relax.op.take(x, index, axis=axis % len(shape_of(x))))


def _index(importer: Any, node: Any) -> Any:
    """``x[i, :, j]``: one ``take`` along the indexed axes, which become one axis."""
    x, indices = argument(importer, node, 0, "input"), argument(importer, node, 1, "indices")
    given, emit = _given(indices), importer.block_builder.emit
    if len(given) == 1:
        ((axis, index),) = given.items()
        return emit(relax.op.take(x, _wrapped(importer, x, axis, index), axis=axis))
    table = _table(importer, x, given)
    made = emit(relax.op.take(table.rows, table.places, axis=0))
    return emit(relax.op.permute_dims(made, table.order)) if table.order else made


def _given(indices: Sequence[Any]) -> dict[int, Any]:
    """The indices by their axis."""
    given = {axis: index for axis, index in enumerate(indices) if index is not None}
    if any(dtype_of(index) == "bool" for index in given.values()):
        raise Hopeless("indexing by a mask gives a dynamic shape")
    return given


def _index_put(importer: Any, node: Any) -> Any:
    """``x[i, :, j] = values``, or ``+=``: rows that are written along the indexed axes."""
    x, indices, values = (argument(importer, node, place, "") for place in range(3))
    adds = bool(argument(importer, node, 3, "accumulate", False))
    emit = importer.block_builder.emit
    table = _table(importer, x, _given(indices))
    selected = (*shape_of(table.places), *shape_of(table.rows)[1:])
    turned = tuple(selected[axis] for axis in table.order) or selected
    values = emit(relax.op.broadcast_to(cast(importer, values, dtype_of(x)), turned))
    if table.order:
        back = [table.order.index(axis) for axis in range(len(selected))]
        values = emit(relax.op.permute_dims(values, back))
    count = math.prod(shape_of(table.places))
    last = shape_of(table.rows)[0] - 1
    places = emit(relax.op.reshape(table.places, (count, 1)))
    # A place outside would be written in foreign memory.
    places = emit(relax.op.clip(places, 0, last))
    values = emit(relax.op.reshape(values, (count, *shape_of(table.rows)[1:])))
    written = emit(relax.op.scatter_nd(table.rows, places, values, "add" if adds else "update"))
    shape = [shape_of(x)[axis] for axis in table.axes]
    written = emit(relax.op.reshape(written, tuple(shape)))
    return emit(
        relax.op.permute_dims(written, [table.axes.index(axis) for axis in range(len(shape))])
    )


@dataclass(frozen=True)
class _IndexedTensors:
    """A tensor whose indexed axes are one axis, the first.

    Attributes
    ----------
    rows: the tensor.
    axes: of the original tensor, the indexed ones first.
    places: the rows that are indexed; indices are broadcast against each other.
    order: of the axes of a selection as torch orders them: where the first indexed axis was, or
        first where the indexed ones are apart; empty where that is the order of ``take``.
    """

    rows: Any
    axes: list[int]
    places: Any
    order: list[int]


def _table(importer: Any, x: Any, given: Mapping[int, Any]) -> _IndexedTensors:
    emit, shape = importer.block_builder.emit, shape_of(x)
    axes = list(given)
    others = [axis for axis in range(len(shape)) if axis not in given]
    places = None
    for axis, index in given.items():
        index = cast(importer, _wrapped(importer, x, axis, index), "int64")
        # One that is too large would be another row of the table.
        index = emit(index_check(index, shape[axis], "[...]"))
        if places is None:
            places = index
        else:
            scaled = emit(relax.op.multiply(places, relax.const(shape[axis], "int64")))
            places = emit(relax.op.add(scaled, index))
    front = emit(relax.op.permute_dims(x, [*axes, *others]))
    count, left = math.prod(shape[axis] for axis in axes), [shape[axis] for axis in others]
    rows = emit(relax.op.reshape(front, (count, *left)))
    rank = len(shape_of(places))
    before = sum(axis < axes[0] for axis in others)
    order: list[int] = []
    if before and axes == list(range(axes[0], axes[-1] + 1)):
        whole = rank + len(others)
        order = [*range(rank, rank + before), *range(rank), *range(rank + before, whole)]
    return _IndexedTensors(rows, [*axes, *others], places, order)


def _wrapped(importer: Any, x: Any, axis: int, index: Any) -> Any:
    emit, dtype = importer.block_builder.emit, dtype_of(index)
    below = emit(relax.op.less(index, relax.const(0, dtype)))
    above = emit(relax.op.add(index, relax.const(shape_of(x)[axis], dtype)))
    return emit(relax.op.where(below, above, index))


def _select(importer: Any, node: Any) -> Any:
    x, axis, place = (argument(importer, node, position, "") for position in range(3))
    axis %= len(shape_of(x))
    place %= shape_of(x)[axis]
    one = importer.block_builder.emit(relax.op.strided_slice(x, [axis], [place], [place + 1]))
    return importer.block_builder.emit(relax.op.squeeze(one, [axis]))


def _scatter(importer: Any, node: Any) -> Any:
    """TVM's ``scatter``, where negative indices count from the end, which torch refuses."""
    x, axis, index = (argument(importer, node, place, "") for place in range(3))
    given = importer.env[node.args[2]]
    extent = shape_of(x)[axis] if shape_of(x) else 1
    importer.env[node.args[2]] = importer.block_builder.emit(index_check(index, extent, "scatter"))
    try:
        return importer.convert_map[node.target.__name__](node)
    finally:
        importer.env[node.args[2]] = given


def _within(importer: Any, node: Any) -> Any:
    """What an operator demands of values before torch decomposes it: see ``demands``."""
    x, low, high, what = (argument(importer, node, place, "") for place in range(4))
    emit = importer.block_builder.emit
    message = outside(what, low, high)
    if is_integer(x):
        return emit(check_call(x, (int(low), int(high)), message))
    dtype = dtype_of(x)
    above = emit(relax.op.greater_equal(x, relax.const(low, dtype)))
    below = emit(relax.op.less_equal(x, relax.const(high, dtype)))
    inside = emit(relax.op.astype(emit(relax.op.logical_and(above, below)), "int32"))
    passed = emit(check_call(inside, (1, 1), message))
    return emit(relax.op.multiply(x, emit(relax.op.astype(passed, dtype))))


INDEXING: dict[str, Converter] = {
    "embedding.default": _embedding,
    "index.Tensor": _index,
    "index_put.default": _index_put,
    "index_select.default": _index_select,
    "select.int": _select,
    "scatter.src": _scatter,
    "scatter.value": _scatter,
    "within.default": _within,
}


# -- Convolutions of torch, of 1, 2 and 3 spatial axes; pooling and interpolation -----------------
#
# TVM's front end ignores arguments of the latter two.

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
