"""Convolutions of a network, with the channels last."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any

from tvm import relax

from schedlang.tvm.relax.layout.definitions import by_phase, convolution, transposed_convolution
from schedlang.tvm.relax.program import operator, shape_of
from schedlang.tvm.values import dtype_of

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
