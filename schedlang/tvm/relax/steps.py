"""Bindings of a network rewritten one by one: powers as products, and reshapes behind products.

TVM calls ``pow`` of the C library for each element of ``power(x, n)``: 0.3 GFLOPS in GPT-2.

A dense layer on ``[batch, place, feature]`` is often written as a view of two axes, a product, the
sum with a bias, and a view back. The second view keeps what follows from being fused into the
product. Behind the sum, the two views are one, which changes nothing and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from schedlang.tvm.relax.evaluation import evaluate
from schedlang.tvm.relax.program import operator, shape_of
from schedlang.tvm.values import dtype_of, is_floating

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
