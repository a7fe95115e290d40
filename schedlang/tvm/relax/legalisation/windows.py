"""Pooling: maxima that keep NaN, and means over windows of uneven size."""

from __future__ import annotations

import math
from typing import Any

from tvm import te, tirx, topi

from schedlang.tvm.relax.legalisation.extremes import reducer
from schedlang.tvm.relax.legalisation.rule import default
from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.values import is_floating


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
