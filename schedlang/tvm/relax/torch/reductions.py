"""Reductions of torch, running sums and medians."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import relax

from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.relax.torch.arguments import Converter, argument, cast, result_type
from schedlang.tvm.values import dtype_of, is_floating


def _extreme(operator: Callable[..., Any]) -> Converter:
    """A reduction over some axes, or all: ``amax``, ``amin`` and ``prod``."""

    def convert(importer: Any, node: Any) -> Any:
        x = cast(importer, argument(importer, node, 0, "input"), result_type(node))
        return _reduced(importer, node, operator, x)

    return convert


def _reduced(importer: Any, node: Any, operator: Callable[..., Any], x: Any) -> Any:
    axes = argument(importer, node, 1, "dim")
    axes = [axes] if isinstance(axes, int) else axes
    keep = bool(argument(importer, node, 2, "keepdim", False))
    return importer.block_builder.emit(operator(x, axes or None, keepdims=keep))


def _any(importer: Any, node: Any) -> Any:
    """Whether an element is not zero: the maximum of booleans."""
    x = cast(importer, argument(importer, node, 0, "input"), "bool")
    return _reduced(importer, node, relax.op.max, x) if shape_of(x) else x


def _with_place(extreme: Callable[..., Any], place: Callable[..., Any]) -> Converter:
    """``max`` or ``min`` along an axis, and where it is."""

    def convert(importer: Any, node: Any) -> Any:
        x, axis = argument(importer, node, 0, "input"), argument(importer, node, 1, "dim")
        keep = bool(argument(importer, node, 2, "keepdim", False))
        emit = importer.block_builder.emit
        found = emit(place(x, axis, keepdims=keep))
        return emit(extreme(x, axis, keepdims=keep)), cast(importer, found, "int64")

    return convert


def _running(operator: Callable[..., Any]) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        dtype = result_type(node)
        x = cast(importer, argument(importer, node, 0, "input"), dtype)
        if not shape_of(x):
            return x
        axis = argument(importer, node, 1, "dim")
        return importer.block_builder.emit(operator(x, axis, dtype))

    return convert


def _sort(importer: Any, node: Any) -> Any:
    """The numbers in order, and their places; equal ones stay in theirs, as TVM sorts stably."""
    x, emit = argument(importer, node, 0, "input"), importer.block_builder.emit
    if not shape_of(x):
        raise ValueError("there is no axis to sort along")
    # The overload `stable` has one more argument, by name only.
    shift = 1 if node.target.__name__ == "sort.stable" else 0
    axis = argument(importer, node, 1 + shift, "dim", -1) % len(shape_of(x))
    descending = bool(argument(importer, node, 2 + shift, "descending", False))
    places = emit(relax.op.argsort(x, axis, descending, "int64"))
    return emit(relax.op.gather_elements(x, places, axis)), places


def _median(importer: Any, node: Any) -> Any:
    """The lower of the two middle numbers and its place; the first NaN where there is one."""
    x, emit = argument(importer, node, 0, "input"), importer.block_builder.emit
    along_axis = node.target.__name__ == "median.dim"
    axis = argument(importer, node, 1, "dim", -1)
    keep = argument(importer, node, 2, "keepdim", False)
    if not along_axis:
        x, axis, keep = emit(relax.op.reshape(x, (math.prod(shape_of(x)),))), 0, False
    axis %= len(shape_of(x))
    middle = (shape_of(x)[axis] - 1) // 2
    order = emit(relax.op.argsort(x, axis, False, "int64"))
    places = emit(relax.op.strided_slice(order, [axis], [middle], [middle + 1]))
    values = emit(relax.op.gather_elements(x, places, axis))
    if is_floating(x):
        largest = emit(relax.op.max(x, [axis], keepdims=True))
        first = cast(importer, emit(relax.op.argmax(x, axis, keepdims=True)), "int64")
        unknown = emit(relax.op.isnan(largest))
        values = emit(relax.op.where(unknown, largest, values))
        places = emit(relax.op.where(unknown, first, places))
    if not keep:
        values, places = (emit(relax.op.squeeze(made, [axis])) for made in (values, places))
    return (values, places) if along_axis else values


def _variance_and_mean(importer: Any, node: Any) -> Any:
    x = argument(importer, node, 0, "input")
    axes = argument(importer, node, 1, "dim")
    axes = list(range(len(shape_of(x)))) if axes is None else list(axes)
    correction = argument(importer, node, 2, "correction", 1)
    keep = bool(argument(importer, node, 3, "keepdim", False))
    count = math.prod(shape_of(x)[axis] for axis in axes)
    emit = importer.block_builder.emit
    spread = emit(relax.op.variance(x, axes, keepdims=keep))
    factor = relax.const(count / max(count - correction, 0), dtype_of(x))
    return emit(relax.op.multiply(spread, factor)), emit(relax.op.mean(x, axes, keepdims=keep))


REDUCTIONS: dict[str, Converter] = {
    "amax.default": _extreme(relax.op.max),
    "amin.default": _extreme(relax.op.min),
    "prod.dim_int": _extreme(relax.op.prod),
    "any.default": _any,
    "any.dim": _any,
    "any.dims": _any,
    "max.dim": _with_place(relax.op.max, relax.op.argmax),
    "min.dim": _with_place(relax.op.min, relax.op.argmin),
    "sort.default": _sort,
    "sort.stable": _sort,
    "median.default": _median,
    "median.dim": _median,
    "cumsum.default": _running(relax.op.cumsum),
    "cumprod.default": _running(relax.op.cumprod),
    "var_mean.correction": _variance_and_mean,
}
