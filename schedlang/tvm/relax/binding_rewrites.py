"""Single bindings of a network rewritten: powers, views behind products, batch normalisations.

``simplify`` and ``channels_last`` apply them while they go through a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax

from schedlang.tvm.relax.evaluation import evaluate
from schedlang.tvm.relax.network_program import operator, shape_of, used
from schedlang.tvm.values import dtype_of, is_floating

# -- Powers as products, and reshapes behind products ---------------------------------------------
#
# TVM calls ``pow`` of the C library for each element of ``power(x, n)``: 0.3 GFLOPS in GPT-2.
#
# A dense layer on ``[batch, place, feature]`` is often written as a view of two axes, a product,
# the sum with a bias, and a view back. The second view keeps what follows from being fused into the
# product. Behind the sum, the two views are one, which changes nothing and is dropped.

_LARGEST = 32
"""Larger exponents stay: each product adds a rounding."""


def power_steps(var: Any, value: Any, known: Callable[[Any], Any]) -> list[tuple[Any, Any]]:
    """Return the bindings that compute a binding's value: itself, or the products of a power.

    ``var`` is the variable of the last one. Exponents are integers up to 32, their negatives, and
    one half of either sign.
    """
    unchanged = [(var, value)]
    if operator(value) != "relax.power":
        return unchanged
    base, exponent = value.args[0], evaluate(value.args[1], known)
    if exponent is None or np.size(exponent) != 1 or shape_of(value) != shape_of(base):
        return unchanged
    number = float(np.reshape(exponent, ()))
    is_float = is_floating(base)
    # The power of -inf is inf and its root NaN; torch takes the root in these types.
    if abs(number) == 0.5 and dtype_of(base) in ("float32", "float64", "bfloat16"):
        return [(var, relax.op.sqrt(base) if number > 0 else relax.op.rsqrt(base))]
    if number != int(number) or not 1 <= abs(number) <= _LARGEST or (number < 0 and not is_float):
        return unchanged
    steps: list[tuple[Any, Any]] = []

    def multiplied(one: Any, other: Any) -> Any:
        made = relax.Var("power", base.ty)
        steps.append((made, relax.op.multiply(one, other)))
        return made

    product, square, left = None, base, int(abs(number))
    while left:
        if left & 1:
            product = square if product is None else multiplied(product, square)
        left >>= 1
        if left:
            square = multiplied(square, square)
    if number < 0:
        steps.append((var, relax.op.divide(relax.const(1.0, dtype_of(base)), product)))
    elif steps:
        steps[-1] = (var, steps[-1][1])
    else:
        steps.append((var, product))
    return steps


Steps = list[tuple[Any, Any]]
_ELEMENTWISE = ("relax.add", "relax.subtract", "relax.multiply")


def moved_views(
    var: Any, value: Any, binding: Callable[[Any], Any], known: Callable[[Any], Any]
) -> Steps:
    """Return the bindings that compute a binding's value, with a reshape behind an operator.

    ``var`` is the variable of the last one; it may be bound to another variable. ``binding``
    returns the value that a variable is bound to, or None; ``known`` that of a known tensor.
    """
    name = operator(value)
    if name == "relax.reshape":
        source = value.args[0]
        inner = binding(source)
        source = inner.args[0] if operator(inner) == "relax.reshape" else source
        return [(var, source if shape_of(source) == shape_of(var) else value)]
    if name == "relax.matmul" and len(shape_of(value.args[1])) == 2:
        source = _viewed(value.args[0], binding)
        if source is not None:
            shape = (*shape_of(source)[:-1], shape_of(value.args[1])[1])
            made = relax.op.matmul(source, value.args[1], value.attrs.out_dtype)
            return _then_view(var, made, shape)
    if name in _ELEMENTWISE:
        for place in (0, 1):
            source, other = _viewed(value.args[place], binding), known(value.args[1 - place])
            if source is None or not isinstance(other, np.ndarray):
                continue
            if other.shape[:-1].count(1) == other.ndim - 1 and shape_of(var) == shape_of(
                value.args[place]
            ):
                arguments = [source, source]
                arguments[1 - place] = relax.const(other.reshape(-1), str(other.dtype))
                return _then_view(var, relax.Call(value.op, arguments), shape_of(source))
    return [(var, value)]


def _viewed(item: Any, binding: Callable[[Any], Any]) -> Any:
    """The tensor that ``item`` is a view of, with more axes and the same last one; or None."""
    value = binding(item)
    if operator(value) != "relax.reshape":
        return None
    before, after = shape_of(value.args[0]), shape_of(item)
    if not len(before) > len(after) >= 2 or before[-1] != after[-1]:
        return None
    ones = [extent for extent in before if extent != 1] == [
        extent for extent in after if extent != 1
    ]
    # An image pooled to one place becomes a row, and is never viewed as an image again.
    return None if ones and len(before) - len(after) > 1 else value.args[0]


def _then_view(var: Any, made: Any, shape: tuple[int, ...]) -> Steps:
    whole = relax.Var("whole", relax.TensorType(shape, dtype_of(var)))
    return [(whole, made), (var, relax.op.reshape(whole, shape_of(var)))]


def joined_views(value: Any, binding: Callable[[Any], Any]) -> Any:
    """Return a value of a binding; for a reshape of a reshape, one that does both."""
    inner: Any = binding(value.args[0]) if operator(value) == "relax.reshape" else None
    if operator(inner) != "relax.reshape":
        return value
    return relax.op.reshape(inner.args[0], value.args[1])


# -- Batch normalisation folded into the convolution before it ------------------------------------
#
# At inference, batch normalisation is ``x * scale + shift`` per channel, with numbers known when
# the network is imported. After a convolution whose result nothing else reads, ``scale`` multiplies
# the weights and ``shift`` joins the bias; anywhere else the product and the sum stay.

_TRANSPOSED = tuple(f"relax.nn.conv{axes}d_transpose" for axes in (1, 2, 3))
_CONVOLUTIONS = (*(f"relax.nn.conv{axes}d" for axes in (1, 2, 3)), *_TRANSPOSED)


@dataclass(frozen=True)
class Affine:
    """``x * scale + shift`` for each channel along an axis, as float64."""

    scale: np.ndarray
    shift: np.ndarray
    axis: int

    def shaped(self, values: np.ndarray, rank: int, dtype: Any) -> np.ndarray:
        """Return one of the two so that it broadcasts to a tensor of this rank."""
        shape = [1] * rank
        shape[self.axis] = len(values)
        return np.asarray(values.reshape(shape), dtype)


def affine_of(call: Any, values: list[np.ndarray]) -> Affine:
    """Return what a batch normalisation does; ``values`` are gamma, beta, mean and variance."""
    gamma, beta, mean, variance = (value.astype(np.float64) for value in values)
    scale = 1 / np.sqrt(variance + float(call.attrs.epsilon))
    if call.attrs.scale:
        scale = scale * gamma
    shift = -mean * scale
    if call.attrs.center:
        shift = shift + beta
    axis = int(call.attrs.axis) % len(shape_of(call.args[0]))
    return Affine(scale, shift, axis)


@dataclass(frozen=True)
class Producer:
    """The convolution that a batch normalisation folds into.

    Attributes
    ----------
    convolution: the variable of its binding.
    bias: the variable of the binding that adds its bias, and the bias; None if it has none.
    """

    convolution: Any
    bias: tuple[Any, Any] | None


def use_counts(bound: list[tuple[Any, Any]], result: Any) -> Counter[Any]:
    """Return how often each variable is read; a read by the result counts too."""
    values = [*(value for _, value in bound), result]
    return Counter(item for value in values for item in used(value) if isinstance(item, relax.Var))


def producer(
    data: Any, axis: int, values: Mapping[Any, Any], uses: Mapping[Any, int]
) -> Producer | None:
    """Return the convolution that computes ``data`` for one reader only, or None.

    ``values`` are the bindings by variable. The channels must be the convolution's along ``axis``.
    """
    bias = None
    value: Any = values.get(data)
    if operator(value) == "relax.add" and uses.get(data) == 1:
        for first, second in (value.args, value.args[::-1]):
            if operator(values.get(first)) in _CONVOLUTIONS and first not in bound_to(second):
                bias = (data, second)
                data, value = first, values[first]
                break
    if operator(value) not in _CONVOLUTIONS or uses.get(data) != 1:
        return None
    layout = str(value.attrs.out_layout or value.attrs.data_layout)
    if layout.find("C") != axis or len(layout) != len(shape_of(data)):
        return None
    return Producer(data, bias)


def bound_to(expr: Any) -> list[Any]:
    """Return the variable that an expression is, in a list; empty for any other expression."""
    return [expr] if isinstance(expr, relax.Var) else []


def scaled_weights(convolution: Any, weights: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the weights of a convolution with every output channel multiplied by its scale."""
    layout = str(convolution.attrs.kernel_layout)
    groups = int(convolution.attrs.groups)
    place = layout.find("O")
    wide = weights.astype(np.float64)
    if operator(convolution) not in _TRANSPOSED:
        shape = [1] * wide.ndim
        shape[place] = len(scale)
        return np.asarray(wide * scale.reshape(shape), weights.dtype)
    # A transposed convolution holds its groups along the input channels.
    inputs = layout.find("I")
    moved = np.moveaxis(wide, (inputs, place), (0, 1))
    grouped = moved.reshape(groups, -1, *moved.shape[1:])
    tail = [1] * (moved.ndim - 2)
    made = grouped * scale.reshape(groups, 1, -1, *tail)
    back = np.moveaxis(made.reshape(moved.shape), (0, 1), (inputs, place))
    return np.asarray(back, weights.dtype)
