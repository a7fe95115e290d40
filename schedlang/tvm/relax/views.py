"""Reshapes moved behind the product that they stand before, where they meet their inverse.

A dense layer on ``[batch, place, feature]`` is often written as a view of two axes, a product, the
sum with a bias, and a view back. The second view keeps what follows from being fused into the
product. Behind the sum, the two views are one, which changes nothing and is dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from schedlang.tvm.relax.program import operator, shape_of
from schedlang.tvm.values import dtype_of

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
