"""Convolutions of a network with the channels last: which ones convert, and their definitions.

A convolution is defined as a tensor expression: one reduction over a padded copy of its input. The
weights of transposed ones are arranged by the phase of the stride.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from tvm import relax, te

from schedlang.tvm.relax.network_program import operator, shape_of
from schedlang.tvm.values import dtype_of

# -- Conversion of a network's convolutions -------------------------------------------------------

_PLAIN = {f"relax.nn.conv{axes}d": axes for axes in (1, 2, 3)}
_TRANSPOSED = {f"relax.nn.conv{axes}d_transpose": axes for axes in (1, 2, 3)}


def converts(call: Any, weights: Collection[Any]) -> bool:
    """Tell whether a call is a convolution to put channels last: its weights are known ahead."""
    name = operator(call)
    if name not in _PLAIN and name not in _TRANSPOSED:
        return False
    if call.args[1] not in weights or 0 in shape_of(call) or 0 in shape_of(call.args[0]):
        return False
    attrs = call.attrs
    spatial = "DHW"[-len(shape_of(call)) + 2 :]
    layouts = str(attrs.data_layout), str(attrs.out_layout or attrs.data_layout)
    kernel = ("IO" if name in _TRANSPOSED else "OI") + spatial
    if layouts != (f"NC{spatial}", f"NC{spatial}") or str(attrs.kernel_layout) != kernel:
        return False
    return name in _PLAIN or int(attrs.groups) == max(_ints(attrs.dilation)) == 1


def channels_last(call: Any, data: Any, first: bool, weight: Any, builder: Any) -> Any:
    """Return a call of a tensor function that computes a convolution, channels last.

    ``data`` and ``weight`` are expressions. ``first``: the data is ``[n, ci, *spatial]``. The
    weights are as they were; the operators that permute them are emitted.
    """
    attrs = call.attrs
    axes = len(shape_of(call)) - 2
    strides, padding = _ints(attrs.strides), _ints(attrs.padding)
    define: Callable[..., Any]
    if operator(call) in _TRANSPOSED:
        made = by_phase(weight, strides, padding[:axes], builder)
        define = partial(transposed_convolution, outs=shape_of(call)[2:], pads=padding[:axes])
    else:
        made = _grouped(weight, int(attrs.groups), builder)
        define = partial(
            convolution,
            strides=strides,
            pads=list(zip(padding[:axes], padding[axes:], strict=True)),
            dilation=_ints(attrs.dilation),
        )
    define = partial(define, out_dtype=dtype_of(call), first=first)
    return builder.call_te(define, data, made, primfunc_name_hint=_name(call))


def _grouped(weight: Any, groups: int, builder: Any) -> Any:
    """Weights ``[co, ci / groups, *window]`` in the form of ``definitions.convolution``."""
    outputs, inputs, *window = shape_of(weight)
    places = range(2, len(window) + 2)
    if groups == 1:
        return builder.emit(relax.op.permute_dims(weight, [*places, 1, 0]))
    if inputs == 1 and outputs == groups:
        made = builder.emit(relax.op.squeeze(weight, [1]))
        return builder.emit(relax.op.permute_dims(made, [*(place - 1 for place in places), 0]))
    made = builder.emit(relax.op.reshape(weight, (groups, outputs // groups, inputs, *window)))
    order = [*(place + 1 for place in places), 2, 0, 1]
    return builder.emit(relax.op.permute_dims(made, order))


def _name(call: Any) -> str:
    name = operator(call).removeprefix("relax.nn.")
    groups = int(call.attrs.groups)
    if groups == 1:
        return name
    return f"depthwise_{name}" if shape_of(call.args[1])[1] == 1 else f"group_{name}"


def _ints(values: Any) -> list[int]:
    return [int(value) for value in values]


# -- Their definitions as tensor expressions, and weights by phase --------------------------------
#
# Each is one reduction over a copy of its input with zeros around it. A depthwise convolution sums
# over the window only. One with groups computes ``[n, *spatial, groups, co]``: all elements of the
# last axis read the same inputs. A transposed one has weights for each phase of its stride.
#
# Row ``stride * at + phase`` of its result is the sum over the places ``r`` of the window for which
# ``row + pad - r`` is a multiple of the stride: every stride-th one, from one that depends on the
# phase. With ``pad = stride * rows + rest``, the input's row is ``at + rows - k`` for the ``k``-th
# of them; phases from ``stride - rest`` on move on one row.
#
# With stride 2 that row is ``at + phase``. For larger strides the window is one place wider, with a
# weight 0 on one side or the other. A quotient of the phase as an index would do without. But TVM
# 0.27 computes some of those wrongly, once loops are fused: ``(p % 32 // 4 + 1) // 2`` becomes
# ``(p + 4) % 32 // 8``.

Pads = Sequence[tuple[int, int]]
"""Zeros before and after each spatial axis."""


def convolution(
    x: te.Tensor,
    weight: te.Tensor,
    *,
    strides: Sequence[int],
    pads: Pads,
    dilation: Sequence[int],
    out_dtype: str,
    first: bool,
) -> te.Tensor:
    """Return a convolution ``[n, *spatial, channels]``.

    Its weights are ``[*window, ci, co]``; of a depthwise one ``[*window, channels]``; of one with
    groups ``[*window, ci, groups, co]``, where ``ci`` and ``co`` are the channels of one group.
    ``first``: the input is ``[n, c, *spatial]``, and the padded copy puts its channels last.
    """
    data = _padded(x, pads, first)
    axes = len(strides)
    batch, *extents, _ = _shape(data)
    window, channels = _shape(weight)[:axes], _shape(weight)[axes:]
    outs = [
        (extent - step * (size - 1) - 1) // stride + 1
        for extent, size, stride, step in zip(extents, window, strides, dilation, strict=True)
    ]
    places = _window(window)
    inside = te.reduce_axis((0, channels[0]), "rc")

    def value(n: Any, *position: Any) -> Any:
        rows = [
            at * stride + place * step
            for at, stride, place, step in zip(
                position[:axes], strides, places, dilation, strict=True
            )
        ]
        result = position[axes:]
        if len(channels) == 1:
            product = _product(data[(n, *rows, *result)], weight[(*places, *result)], out_dtype)
            return te.sum(product, axis=places)
        channel = inside if len(channels) == 2 else result[0] * channels[0] + inside
        product = _product(data[(n, *rows, channel)], weight[(*places, inside, *result)], out_dtype)
        return te.sum(product, axis=[*places, inside])

    shape = (batch, *outs, *(channels[1:] or channels))
    made = te.compute(shape, value, name=f"conv{axes}d")
    if len(channels) < 3:
        return made
    _, groups, outputs = channels
    return te.compute(
        (batch, *outs, groups * outputs),
        lambda *at: made[(*at[:-1], *_divided(at[-1], outputs))],
        name=f"conv{axes}d_channels",
    )


def transposed_convolution(
    x: te.Tensor,
    weight: te.Tensor,
    *,
    outs: Sequence[int],
    pads: Sequence[int],
    out_dtype: str,
    first: bool,
) -> te.Tensor:
    """Return a transposed convolution ``[n, *outs, co]``.

    Its weights are those of ``by_phase``: ``[*strides, *window, ci, co]``. Row ``stride * at
    + phase`` of the result reads ``window`` rows of the input in a row, so that no factor is a zero
    between elements of the input. ``pads`` are the rows that the convolution drops before the first
    one of its result. ``first`` is as in ``convolution``.
    """
    axes = len(outs)
    strides, window = _shape(weight)[:axes], _shape(weight)[axes : 2 * axes]
    inputs, channels = _shape(weight)[-2:]
    extents = _shape(x)[2:] if first else _shape(x)[1:-1]
    counts = [-(-out // stride) for out, stride in zip(outs, strides, strict=True)]
    steps = [moves(stride, pad) for stride, pad in zip(strides, pads, strict=True)]
    # Row ``at`` begins to read at row ``at + pad // stride + 1 - size`` of the input, and phases
    # that move on one row later.
    starts = [
        pad // stride + 1 - size + widened(stride, pad)
        for pad, stride, size in zip(pads, strides, window, strict=True)
    ]
    around = [
        (max(0, -start), max(0, count + start + size - 1 + step - extent))
        for start, count, size, step, extent in zip(
            starts, counts, window, steps, extents, strict=True
        )
    ]
    data = _padded(x, around, first)
    places = _window(window)
    inside = te.reduce_axis((0, inputs), "rc")

    def value(n: Any, *position: Any) -> Any:
        left, rows, chosen = list(position), [], []
        for axis, place in enumerate(places):
            row = left.pop(0) + place + max(0, starts[axis])
            phase = left.pop(0) if strides[axis] > 1 else 0
            rows.append(row + phase if steps[axis] else row)
            chosen.append(phase)
        factor = weight[(*chosen, *places, inside, *left)]
        return te.sum(_product(data[(n, *rows, inside)], factor, out_dtype), axis=[*places, inside])

    batch, name = _shape(x)[0], f"conv{axes}d_transpose"
    apart: list[int] = []
    for count, stride in zip(counts, strides, strict=True):
        apart += [count, stride] if stride > 1 else [count]
    made = te.compute((batch, *apart, channels), value, name=name)
    if max(strides) == 1:
        return made

    def joined(n: Any, *position: Any) -> Any:
        places: list[Any] = []
        for at, stride in zip(position[:-1], strides, strict=True):
            places += _divided(at, stride) if stride > 1 else [at]
        return made[(n, *places, position[-1])]

    return te.compute((batch, *outs, channels), joined, name=f"{name}_rows")


def _shape(tensor: te.Tensor) -> list[int]:
    return [int(extent) for extent in tensor.shape]


def _divided(index: Any, divisor: int) -> tuple[Any, Any]:
    """Quotient and remainder."""
    return te.indexdiv(index, divisor), te.indexmod(index, divisor)


def _window(extents: Sequence[int]) -> list[Any]:
    names = "dhw"[-len(extents) :]
    return [
        te.reduce_axis((0, size), f"r{name}") for size, name in zip(extents, names, strict=True)
    ]


def _product(data: Any, weight: Any, dtype: str) -> Any:
    return data.astype(dtype) * weight.astype(dtype)


def _padded(x: te.Tensor, pads: Pads, first: bool) -> te.Tensor:
    """A copy with zeros around it and the channels last; ``x`` itself if that is what it is."""
    if not first and not any(before or after for before, after in pads):
        return x
    batch, *extents, channels = _shape(x)
    if first:
        batch, channels, *extents = _shape(x)

    def value(n: Any, *position: Any) -> Any:
        *spatial, c = position
        rows, inside = [], []
        for at, (before, after), extent in zip(spatial, pads, extents, strict=True):
            rows.append(at - before)
            inside += [at >= before] if before else []
            inside += [at < before + extent] if after else []
        found = x[(n, c, *rows)] if first else x[(n, *rows, c)]
        return te.if_then_else(te.all(*inside), found, te.const(0, x.dtype)) if inside else found

    shape = [before + extent + after for (before, after), extent in zip(pads, extents, strict=True)]
    return te.compute((batch, *shape, channels), value, name="pad_temp")


def moves(stride: int, pad: int) -> bool:
    """Tell whether the last phase reads one row later than the first one."""
    return stride == 2 and pad % stride != 0


def widened(stride: int, pad: int) -> bool:
    """Tell whether the window is one place wider than each phase needs."""
    return stride > 2 and pad % stride != 0


def by_phase(weight: Any, strides: Sequence[int], pads: Sequence[int], builder: Any) -> Any:
    """Return weights ``[*strides, *window, ci, co]`` of ``weight``: ``[ci, co, *window]``.

    The rows of the input go up with the places of the window. The window is filled up with zeros
    where the stride does not divide it. ``builder`` emits the operators.
    """
    axes = len(strides)
    made = weight
    for axis, (stride, pad) in enumerate(zip(strides, pads, strict=True)):
        made = _split(made, 2 + 2 * axis, stride, pad % stride, widened(stride, pad), builder)
    places = [2 + 2 * axis for axis in range(axes)]
    order = [*places, *(place + 1 for place in places), 0, 1]
    return builder.emit(relax.op.permute_dims(made, order))


def _split(weight: Any, axis: int, stride: int, rest: int, wide: bool, builder: Any) -> Any:
    """Return the weights with two axes, phase and place, instead of one of the window."""
    shape = shape_of(weight)
    size = -(-shape[axis] // stride)
    made = _filled_up(weight, axis, 0, size * stride - shape[axis], builder)
    made = builder.emit(relax.op.reshape(made, (*shape[:axis], size, stride, *shape[axis + 1 :])))
    made = builder.emit(relax.op.flip(made, axis))
    order = list(range(len(shape) + 1))
    order[axis : axis + 2] = axis + 1, axis
    made = builder.emit(relax.op.permute_dims(made, order))
    if not rest:
        return made
    # Phase 0 has the places ``rest``, ``rest + stride``, ...
    early = builder.emit(relax.op.strided_slice(made, [axis], [rest], [stride]))
    late = builder.emit(relax.op.strided_slice(made, [axis], [0], [rest]))
    if wide:
        early = _filled_up(early, axis + 1, 0, 1, builder)
        late = _filled_up(late, axis + 1, 1, 0, builder)
    return builder.emit(relax.op.concat([early, late], axis))


def _filled_up(weight: Any, axis: int, before: int, after: int, builder: Any) -> Any:
    if not before and not after:
        return weight
    widths = [0] * (2 * len(shape_of(weight)))
    widths[2 * axis : 2 * axis + 2] = before, after
    return builder.emit(relax.op.nn.pad(weight, widths))
