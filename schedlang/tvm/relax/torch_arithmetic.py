"""Arithmetic of torch: sums, products, divisions that round, shifts, bounds and comparisons.

And activations and choices. ``floor(a / b)`` is no quotient where ``a / b`` was rounded up to an
integer, and NaN and infinities take part as in Python: torch computes all three from the exact
remainder of C's ``fmod``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import relax

from schedlang.tvm.relax.network_program import shape_of
from schedlang.tvm.relax.torch_arguments import (
    Converter,
    Hopeless,
    argument,
    cast,
    expected_type,
    first_of_three,
    operands,
    pair,
    product,
    result_type,
)
from schedlang.tvm.values import dtype_of, is_floating


def _arithmetic(operator: Callable[[Any, Any], Any], swap: bool = False) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        dtype = result_type(node)
        left, right = operands(importer, node, dtype)
        alpha = argument(importer, node, 2, "alpha", 1)
        left, right = (right, left) if swap else (left, right)
        if alpha != 1:
            scale = relax.const(alpha, dtype)
            if swap:
                left, right = left, importer.block_builder.emit(relax.op.multiply(right, scale))
            else:
                right = importer.block_builder.emit(relax.op.multiply(right, scale))
        return importer.block_builder.emit(operator(left, right))

    return convert


def _where(importer: Any, node: Any) -> Any:
    dtype = result_type(node)
    condition, one, other = (argument(importer, node, place, "") for place in range(3))
    chosen = relax.op.where(condition, cast(importer, one, dtype), cast(importer, other, dtype))
    return importer.block_builder.emit(chosen)


def _softmax(operator: Callable[..., Any]) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        x = cast(importer, argument(importer, node, 0, "input"), result_type(node))
        axis = argument(importer, node, 1, "dim")
        return importer.block_builder.emit(operator(x, axis))

    return convert


def _matmul(importer: Any, node: Any) -> Any:
    left, right = argument(importer, node, 0, "input"), argument(importer, node, 1, "other")
    return product(importer, left, right)


def _linear(importer: Any, node: Any) -> Any:
    x, weight = argument(importer, node, 0, "input"), argument(importer, node, 1, "weight")
    bias = argument(importer, node, 2, "bias")
    transposed = importer.block_builder.emit(relax.op.permute_dims(weight))
    made = product(importer, x, transposed)
    return made if bias is None else importer.block_builder.emit(relax.op.add(made, bias))


def _add_product(importer: Any, node: Any) -> Any:
    """``addmm`` and ``baddbmm``: ``beta * added + alpha * (left @ right)``."""
    dtype = result_type(node)
    added, left, right = (argument(importer, node, place, "") for place in range(3))
    made = product(importer, left, right)
    scaled = []
    for value, name, place in ((made, "alpha", 4), (added, "beta", 3)):
        factor = argument(importer, node, place, name, 1)
        if factor != 1:
            value = importer.block_builder.emit(
                relax.op.multiply(value, relax.const(factor, dtype))
            )
        scaled.append(value)
    return importer.block_builder.emit(relax.op.add(*scaled))


def _elu(importer: Any, node: Any) -> Any:
    """``scale * (max(x, 0) + min(alpha * (exp(input_scale * x) - 1), 0))``."""
    x = argument(importer, node, 0, "input")
    dtype = dtype_of(x)
    alpha, scale, inner = (
        relax.const(argument(importer, node, place, name, 1), dtype)
        for place, name in ((1, "alpha"), (2, "scale"), (3, "input_scale"))
    )
    zero, one = relax.const(0, dtype), relax.const(1, dtype)
    emit = importer.block_builder.emit
    grown = emit(relax.op.exp(emit(relax.op.multiply(x, inner))))
    below = emit(relax.op.multiply(emit(relax.op.subtract(grown, one)), alpha))
    summed = relax.op.add(relax.op.maximum(x, zero), relax.op.minimum(below, zero))
    return emit(relax.op.multiply(emit(summed), scale))


def _concatenate(importer: Any, node: Any) -> Any:
    dtype = result_type(node)
    parts = [cast(importer, part, dtype) for part in argument(importer, node, 0, "tensors")]
    axis = argument(importer, node, 1, "dim", 0)
    return importer.block_builder.emit(relax.op.concat(parts, axis))


def _random(importer: Any, node: Any) -> Any:
    raise Hopeless("it draws random numbers, and a network computes the same at every call")


def _dropout(importer: Any, node: Any) -> Any:
    if argument(importer, node, 2, "train", False) and argument(importer, node, 1, "p", 0.5) > 0:
        raise Hopeless("it drops values at random, as in training; export the model in eval mode")
    return argument(importer, node, 0, "input")


Emit = Callable[[Any], Any]


def _rounded(importer: Any, node: Any) -> Any:
    mode, emit = argument(importer, node, 2, "rounding_mode"), importer.block_builder.emit
    if mode == "floor":
        return _floor(importer, node)
    dtype = result_type(node)
    left, right = operands(importer, node, dtype)
    quotient = emit(relax.op.divide(left, right))
    if mode == "trunc" and is_floating(dtype):
        return emit(relax.op.trunc(quotient))
    if mode is None:
        return quotient
    raise ValueError(f"a division of {dtype} that rounds by {mode!r}")


def _by_type(whole: Callable[[Any, Any], Any], inexact: Callable[..., Any]) -> Converter:
    """Return the converter of a division: ``whole`` of integers, ``inexact`` of other numbers."""

    def convert(importer: Any, node: Any) -> Any:
        dtype, emit = result_type(node), importer.block_builder.emit
        left, right = operands(importer, node, dtype)
        return inexact(emit, left, right, dtype) if is_floating(dtype) else emit(whole(left, right))

    return convert


def _floor_of_quotient(emit: Emit, left: Any, right: Any, dtype: str) -> Any:
    zero, one = relax.const(0, dtype), relax.const(1, dtype)
    rest = emit(relax.op.mod(left, right))
    whole = emit(relax.op.divide(emit(relax.op.subtract(left, rest)), right))
    whole = emit(
        relax.op.where(_turned(emit, rest, right, zero), emit(relax.op.subtract(whole, one)), whole)
    )
    floor = emit(relax.op.floor(whole))
    missing = emit(relax.op.greater(emit(relax.op.subtract(whole, floor)), relax.const(0.5, dtype)))
    floor = emit(relax.op.where(missing, emit(relax.op.add(floor, one)), floor))
    by_zero = emit(relax.op.equal(right, zero))
    return emit(relax.op.where(by_zero, emit(relax.op.divide(left, right)), floor))


def _remainder_like_divisor(emit: Emit, left: Any, right: Any, dtype: str) -> Any:
    rest = emit(relax.op.mod(left, right))
    turned = _turned(emit, rest, right, relax.const(0, dtype))
    return emit(relax.op.where(turned, emit(relax.op.add(rest, right)), rest))


def _turned(emit: Emit, rest: Any, divisor: Any, zero: Any) -> Any:
    """Whether a remainder has another sign than the divisor."""
    signs = emit(
        relax.op.not_equal(emit(relax.op.less(rest, zero)), emit(relax.op.less(divisor, zero)))
    )
    return emit(relax.op.logical_and(emit(relax.op.not_equal(rest, zero)), signs))


_floor = _by_type(relax.op.floor_divide, _floor_of_quotient)
_remainder = _by_type(relax.op.floor_mod, _remainder_like_divisor)
ARITHMETIC: dict[str, Converter] = {
    "add.Tensor": _arithmetic(relax.op.add),
    "add.Scalar": _arithmetic(relax.op.add),
    "sub.Tensor": _arithmetic(relax.op.subtract),
    "sub.Scalar": _arithmetic(relax.op.subtract),
    "rsub.Tensor": _arithmetic(relax.op.subtract, swap=True),
    "rsub.Scalar": _arithmetic(relax.op.subtract, swap=True),
    "mul.Tensor": _arithmetic(relax.op.multiply),
    "mul.Scalar": _arithmetic(relax.op.multiply),
    "div.Tensor": _arithmetic(relax.op.divide),
    "div.Scalar": _arithmetic(relax.op.divide),
    "where.self": _where,
    "softmax.int": _softmax(relax.op.nn.softmax),
    "_softmax.default": _softmax(relax.op.nn.softmax),
    "log_softmax.int": _softmax(relax.op.nn.log_softmax),
    "_log_softmax.default": _softmax(relax.op.nn.log_softmax),
    "matmul.default": _matmul,
    "mm.default": _matmul,
    "bmm.default": _matmul,
    "linear.default": _linear,
    "addmm.default": _add_product,
    "baddbmm.default": _add_product,
    "elu.default": _elu,
    "cat.default": _concatenate,
    "dropout.default": _dropout,
    "native_dropout.default": first_of_three(_dropout),
    **{
        name: _random
        for name in ("bernoulli.p", "exponential.default", "randn.default", "randn_like.default")
    },
    "div.Tensor_mode": _rounded,
    "div.Scalar_mode": _rounded,
    "floor_divide.default": _floor,
    "remainder.Tensor": _remainder,
    "remainder.Scalar": _remainder,
    "fmod.Tensor": pair(relax.op.mod, result_type),
    "fmod.Scalar": pair(relax.op.mod, result_type),
}


# -- Shifts of integers, whatever the distance ----------------------------------------------------
#
# Behind its type's last bit a number that is shifted to the left is 0, one that is shifted to the
# right has its sign left; a negative distance counts as a large one. TVM's code is not defined
# there.


def _shift(operator: Callable[[Any, Any], Any], *, keeps_sign: bool) -> Converter:
    def convert(importer: Any, node: Any) -> Any:
        dtype, emit = result_type(node), importer.block_builder.emit
        number, distance = operands(importer, node, dtype)
        last = relax.const(int(dtype.lstrip("uint")) - 1, dtype)
        zero = relax.const(0, dtype)
        within = emit(relax.op.minimum(emit(relax.op.maximum(distance, zero)), last))
        shifted = emit(operator(number, within))
        signed = keeps_sign and not dtype.startswith("u")
        rest = emit(operator(number, last)) if signed else zero
        return emit(relax.op.where(emit(relax.op.equal(distance, within)), shifted, rest))

    return convert


_NAMES = ("__{}__.Scalar", "__{}__.Tensor")
_LONG_NAMES = ("bitwise_{}_shift.Tensor", "bitwise_{}_shift.Tensor_Scalar")
SHIFTS: dict[str, Converter] = {
    **dict.fromkeys(
        [name.format("lshift") for name in _NAMES] + [name.format("left") for name in _LONG_NAMES],
        _shift(relax.op.left_shift, keeps_sign=False),
    ),
    **dict.fromkeys(
        [name.format("rshift") for name in _NAMES] + [name.format("right") for name in _LONG_NAMES],
        _shift(relax.op.right_shift, keeps_sign=True),
    ),
}


# -- Functions whose operands get a common element type first -------------------------------------


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
