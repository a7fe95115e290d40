"""Maxima and minima that keep NaN, as in torch, numpy and ONNX; and pooling of windows.

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


def max_pool(bb: Any, call: Any) -> Any:
    """The maximum of each window, of 1, 2 or 3 spatial axes in any place."""
    attrs, x = call.attrs, call.args[0]
    layout = str(attrs.layout)
    if not is_floating(x) or not layout.isalpha() or str(attrs.out_layout) != layout:
        return default(bb, call)
    axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    count, shape, after = len(axes), shape_of(x), shape_of(call)
    sizes, strides, dilation, padding = (
        [int(value) for value in values]
        for values in (attrs.pool_size, attrs.strides, attrs.dilation, attrs.padding)
    )
    front, back = [0] * len(shape), [0] * len(shape)
    for place, axis in enumerate(axes):
        front[axis] = padding[place]
        reach = (after[axis] - 1) * strides[place] + (sizes[place] - 1) * dilation[place] + 1
        # With `ceil_mode` the last window reaches further than the padding.
        back[axis] = max(padding[count + place], reach - shape[axis] - padding[place])
        back[axis] = max(back[axis], 0)

    def pooled(data: te.Tensor) -> te.Tensor:
        padded = data
        if any(front) or any(back):
            lowest = tirx.const(-math.inf, data.dtype)
            padded = topi.nn.pad(data, front, back, lowest, name="pad_temp")
        inner = [te.reduce_axis((0, size), f"rv{place}") for place, size in enumerate(sizes)]

        def element(*index: Any) -> Any:
            chosen = list(index)
            for place, axis in enumerate(axes):
                chosen[axis] = index[axis] * strides[place] + inner[place] * dilation[place]
            return reducer("max")(padded[tuple(chosen)], axis=inner)

        return te.compute(after, element, "pool_max", tag="pool_max")

    return bb.call_te(pooled, x, primfunc_name_hint=f"max_pool{count}d")


def adaptive_mean(bb: Any, call: Any) -> Any:
    """The mean of each window, where the windows of an axis may differ in size.

    The reduction is as long as the longest window; in shorter ones its last steps add zero.
    """
    x, layout = call.args[0], str(call.attrs.layout)
    axes = [axis for axis, letter in enumerate(layout) if letter in "DHW"]
    before, after = shape_of(x), shape_of(call)
    uneven = [axis for axis in axes if before[axis] % after[axis]]
    if not uneven or not layout.isalpha():
        return default(bb, call)

    def start(axis: int, place: Any) -> Any:
        return place * before[axis] // after[axis]

    def end(axis: int, place: Any) -> Any:
        return -((-(place + 1) * before[axis]) // after[axis])

    longest = {
        axis: max(end(axis, place) - start(axis, place) for place in range(after[axis]))
        for axis in axes
    }

    def symbolic_start(axis: int, place: Any) -> Any:
        return tirx.floordiv(place * before[axis], after[axis])

    def symbolic_end(axis: int, place: Any) -> Any:
        return tirx.floordiv((place + 1) * before[axis] + after[axis] - 1, after[axis])

    def pooled(data: te.Tensor) -> te.Tensor:
        inner = {axis: te.reduce_axis((0, longest[axis]), f"rv{axis}") for axis in axes}
        zero = tirx.const(0, data.dtype)

        def total(*index: Any) -> Any:
            chosen, inside = list(index), []
            for axis in axes:
                chosen[axis] = symbolic_start(axis, index[axis]) + inner[axis]
                if axis in uneven:
                    inside.append(chosen[axis] < symbolic_end(axis, index[axis]))
            value = data[tuple(chosen)]
            value = tirx.if_then_else(tirx.all(*inside), value, zero)
            return te.sum(value, axis=list(inner.values()))

        sums = te.compute(after, total, "adaptive_pool_sum", tag="adaptive_pool_sum")

        def mean(*index: Any) -> Any:
            count = tirx.const(1, "int32")
            for axis in axes:
                count = count * (
                    symbolic_end(axis, index[axis]) - symbolic_start(axis, index[axis])
                )
            return sums[index] / count.astype(data.dtype)

        return te.compute(after, mean, "adaptive_pool_avg")

    return bb.call_te(pooled, x, primfunc_name_hint=f"adaptive_avg_pool{len(axes)}d")
