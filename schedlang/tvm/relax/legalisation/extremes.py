"""Maxima and minima that keep NaN, as in torch, numpy and ONNX.

TVM's ``max(a, b)`` is ``b`` if one of the two is NaN. With a bound for ``a`` that is enough, and
as fast as before; between two tensors, and in reductions, a NaN in ``a`` is kept by a choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tvm import relax, te, tirx, topi

from schedlang.tvm.relax.legalisation.rule import (
    Rule,
    computed_as,
    default,
    is_number,
    key,
    number,
    numbers,
    paired,
)
from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.values import dtype_of, is_floating


def _keeping(name: str) -> Callable[[Any, Any], Any]:
    """The maximum or minimum of two numbers, either of which may be NaN."""
    return lambda a, b: tirx.Select(is_number(b), _CHOOSE[name](b, a), b)


_CHOOSE = {"max": tirx.max, "min": tirx.min}


def reducer(name: str) -> Any:
    """Return the reduction ``"max"`` or ``"min"`` of floating-point numbers, which keeps NaN.

    It computes on the numbers as they are. Its identity is infinite: that of ``te.max`` is the
    lowest finite number.
    """
    worst = -math.inf if name == "max" else math.inf
    return te.comm_reducer(_keeping(name), lambda dtype: tirx.const(worst, dtype), name)


def relu(bb: Any, call: Any) -> Any:
    """``max(0, x)``."""
    x = call.args[0]
    zero = tirx.const(0, dtype_of(x))
    return bb.call_te(_elementwise(lambda value: tirx.max(zero, value), "relu"), x)


def clip(bb: Any, call: Any) -> Any:
    """``min(high, max(low, x))``: where the bounds are crossed, the upper one counts."""
    x, low, high = call.args
    return _bounded(bb, x, float(low.value), float(high.value), "tir_clip")


def _bounded(bb: Any, x: Any, low: float, high: float, name: str) -> Any:
    dtype = dtype_of(x)

    def within(value: Any) -> Any:
        if low != -math.inf:
            value = tirx.max(_bound(low, dtype), value)
        return value if high == math.inf else tirx.min(_bound(high, dtype), value)

    return bb.call_te(_elementwise(within, name), x)


def _bound(value: float, dtype: str) -> Any:
    return tirx.const(value if is_floating(dtype) else int(value), dtype)


def _elementwise(function: Callable[[Any], Any], name: str) -> Callable[[te.Tensor], te.Tensor]:
    def made(x: te.Tensor) -> te.Tensor:
        return te.compute(x.shape, lambda *place: function(x[place]), "compute")

    made.__name__ = name
    return made


def pairwise(name: str) -> Rule:
    """Return the rule of ``relax.maximum`` or ``relax.minimum``."""

    def rule(bb: Any, call: Any) -> Any:
        one, other = call.args
        if not is_floating(one):
            return default(bb, call)
        for bound, tensor in ((one, other), (other, one)):
            value = number(bound)
            if value is not None and not math.isnan(value):
                low, high = (value, math.inf) if name == "max" else (-math.inf, value)
                return _bounded(bb, tensor, low, high, f"{name}imum")
        return bb.call_te(paired(_keeping(name)), one, other, primfunc_name_hint=f"{name}imum")

    return rule


def reduction(name: str) -> Rule:
    """Return the rule of ``relax.max`` or ``relax.min``."""

    def rule(bb: Any, call: Any) -> Any:
        x, dtype = call.args[0], dtype_of(call.args[0])
        if dtype == "bool":
            if 0 in shape_of(x):  # a reduction without steps writes nothing
                return bb.call_te(topi.full, shape_of(call), "bool", name == "min")
            return relax.op.astype(computed_as(bb, call, "uint8"), "bool")
        if not is_floating(dtype):
            return default(bb, call)
        axes = None if call.attrs.axis is None else [int(axis) for axis in call.attrs.axis]
        keep = bool(call.attrs.keepdims)

        return bb.call_te(lambda data: reduced(data, axes, keep), x, primfunc_name_hint=name)

    def reduced(x: te.Tensor, axes: Sequence[int] | None, keep: bool) -> te.Tensor:
        rank, reduce = len(x.shape), te.max if name == "max" else te.min
        chosen = {axis % rank for axis in (range(rank) if axes is None else axes)}
        inner = {axis: te.reduce_axis((0, x.shape[axis]), f"k{axis}") for axis in sorted(chosen)}
        left = [axis for axis in range(rank) if keep or axis not in chosen]

        def element(*place: Any) -> Any:
            outer = dict(zip(left, place, strict=True))
            index = tuple(inner[axis] if axis in inner else outer[axis] for axis in range(rank))
            value = key(x[index], str(x.dtype), unknown_first=name == "min")
            return reduce(value, axis=list(inner.values()))

        shape = [1 if axis in chosen else x.shape[axis] for axis in left]
        return numbers(te.compute(shape, element, f"x_red_{name}"), str(x.dtype))

    return rule
