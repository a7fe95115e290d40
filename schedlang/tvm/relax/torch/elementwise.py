"""Bounds, comparisons and functions of torch whose operands get a common element type first."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import relax

from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.relax.torch.arguments import (
    Converter,
    argument,
    cast,
    expected_type,
    pair,
    result_type,
)
from schedlang.tvm.values import dtype_of, is_floating


def _operand_type(node: Any) -> str:
    """The element type in which torch computes an operator of two operands, numbers or tensors."""
    import torch

    values = [getattr(item, "meta", {}).get("val", item) for item in node.args[:2]]
    return str(torch.result_type(*values)).removeprefix("torch.")


def _of_one(operator: Callable[[Any], Any]) -> Converter:
    """A function that gives floating-point numbers for integers and booleans too."""

    def convert(importer: Any, node: Any) -> Any:
        x = cast(importer, argument(importer, node, 0, "input"), result_type(node))
        return importer.block_builder.emit(operator(x))

    return convert


def _clamp(importer: Any, node: Any) -> Any:
    """``min(high, max(low, x))``, with numbers or tensors as bounds, or without one of them."""
    dtype, emit = result_type(node), importer.block_builder.emit
    x = cast(importer, argument(importer, node, 0, "input"), dtype)
    kind = node.target.__name__.split(".")[0]
    places = {"clamp": ("min", "max"), "clamp_min": ("min",), "clamp_max": ("max",)}[kind]
    bounds = {name: argument(importer, node, 1 + place, name) for place, name in enumerate(places)}
    if any(isinstance(bound, float) and math.isnan(bound) for bound in bounds.values()):
        raise ValueError("a bound is NaN")
    numbers = all(bound is None or isinstance(bound, int | float) for bound in bounds.values())
    if numbers:
        low = -math.inf if bounds.get("min") is None else bounds["min"]
        high = math.inf if bounds.get("max") is None else bounds["max"]
        return emit(relax.op.clip(x, low, high))
    for name, operator in (("min", relax.op.maximum), ("max", relax.op.minimum)):
        if bounds.get(name) is not None:
            x = emit(operator(x, cast(importer, bounds[name], dtype)))
    return x


def _soft_shrink(importer: Any, node: Any) -> Any:
    """``x - size`` above ``size``, ``x + size`` below ``-size``, and zero, or NaN, between."""
    x, emit = argument(importer, node, 0, "input"), importer.block_builder.emit
    dtype = dtype_of(x)
    size = argument(importer, node, 1, "lambd", 0.5)
    high, low = relax.const(size, dtype), relax.const(-size, dtype)
    between = emit(relax.op.multiply(x, relax.const(0, dtype)))
    above, below = emit(relax.op.greater(x, high)), emit(relax.op.less(x, low))
    lowered, raised = emit(relax.op.subtract(x, high)), emit(relax.op.add(x, high))
    return emit(relax.op.where(above, lowered, emit(relax.op.where(below, raised, between))))


def _padded(importer: Any, node: Any) -> Any:
    """Constant padding, with a number of the tensor's type."""
    x = argument(importer, node, 0, "input")
    expected = expected_type(node)
    pads = list(argument(importer, node, 1, "pad"))
    if any(pad < 0 for pad in pads) or expected is None or dtype_of(x) != "bool":
        return importer.convert_map["constant_pad_nd.default"](node)
    rank = len(shape_of(x))
    widths = [0] * (2 * rank)
    for place in range(len(pads) // 2):
        axis = rank - 1 - place
        widths[2 * axis], widths[2 * axis + 1] = pads[2 * place], pads[2 * place + 1]
    value = bool(argument(importer, node, 2, "value", 0))
    return importer.block_builder.emit(relax.op.nn.pad(x, widths, "constant", int(value)))


def _padded_whole(importer: Any, node: Any) -> Any:
    if dtype_of(argument(importer, node, 0, "input")) == "bool":
        raise ValueError("TVM pads booleans with numbers")
    return importer.convert_map["pad.default"](node)


def _bucketize(importer: Any, node: Any) -> Any:
    """Where numbers belong among sorted ones; a NaN belongs behind the last."""
    x, borders = argument(importer, node, 0, "input"), argument(importer, node, 1, "boundaries")
    emit = importer.block_builder.emit
    found = importer.convert_map["bucketize.Tensor"](node)
    if not isinstance(x, relax.Expr) or not is_floating(x):
        return found
    last = relax.const(shape_of(borders)[0], dtype_of(found))
    return emit(relax.op.where(emit(relax.op.isnan(x)), last, found))


_COMPARISONS = {
    "eq": relax.op.equal,
    "ne": relax.op.not_equal,
    "lt": relax.op.less,
    "le": relax.op.less_equal,
    "gt": relax.op.greater,
    "ge": relax.op.greater_equal,
}
_FLOATING = (
    *("exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sigmoid", "erf"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan"),
    *("asinh", "acosh", "atanh"),
)
ELEMENTWISE: dict[str, Converter] = {
    **{
        f"{name}.{kind}": pair(operator, _operand_type)
        for name, operator in _COMPARISONS.items()
        for kind in ("Tensor", "Scalar")
    },
    "maximum.default": pair(relax.op.maximum, result_type),
    "minimum.default": pair(relax.op.minimum, result_type),
    "max.other": pair(relax.op.maximum, result_type),
    "min.other": pair(relax.op.minimum, result_type),
    "atan2.default": pair(relax.op.atan2, result_type),
    "logaddexp.default": pair(relax.op.log_add_exp, result_type),
    "clamp.default": _clamp,
    "clamp.Tensor": _clamp,
    "clamp_min.default": _clamp,
    "clamp_max.default": _clamp,
    "softshrink.default": _soft_shrink,
    "constant_pad_nd.default": _padded,
    "pad.default": _padded_whole,
    "bucketize.Tensor": _bucketize,
    **{
        f"{name}.default": _of_one(getattr(relax.op, name))
        for name in _FLOATING
        if hasattr(relax.op, name)
    },
}
