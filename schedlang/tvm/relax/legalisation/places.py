"""Where the largest and the smallest numbers are, and their order; a NaN is the largest of all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax, te, tirx

from schedlang.tvm.relax.legalisation.extremes import Rule, is_nan
from schedlang.tvm.relax.program import dtype_of, is_inexact, shape_of

_LAST = 2**31 - 1


def first_place(name: str) -> Rule:
    """Return the rule of ``relax.argmax`` or ``relax.argmin``.

    The first of several equal numbers is taken, and a NaN before all others in both.
    """

    def rule(bb: Any, call: Any) -> Any:
        x, axis = call.args[0], call.attrs.axis
        shape, dtype = shape_of(x), dtype_of(x)
        if dtype in ("bool", "bfloat16"):  # neither can be passed on from step to step
            x = bb.emit(relax.op.astype(x, "int8" if dtype == "bool" else "float32"))
        if axis is None:
            x = bb.emit(relax.op.reshape(x, (math.prod(shape),)))
        place = 0 if axis is None else int(axis) % len(shape)
        made = bb.emit(
            bb.call_te(lambda data: searched(data, place), x, primfunc_name_hint=f"arg{name}")
        )
        made = made if dtype_of(made) == dtype_of(call) else relax.op.astype(made, dtype_of(call))
        return relax.op.reshape(made, shape_of(call))

    def searched(data: te.Tensor, axis: int) -> te.Tensor:
        chosen = _reducer(name, str(data.dtype))
        inner = te.reduce_axis((0, data.shape[axis]), "k")
        shape = [extent for place, extent in enumerate(data.shape) if place != axis]

        def element(*index: Any) -> Any:
            value = data[(*index[:axis], inner, *index[axis:])]
            return chosen((inner.var.astype("int32"), value), axis=inner)

        places, _ = te.compute(shape, element, f"x_red_arg{name}")
        return te.compute(shape, lambda *index: places[index], "place")

    return rule


def _reducer(name: str, dtype: str) -> Any:
    has_nan = is_inexact(dtype)

    def better(one: Any, other: Any) -> Any:
        return one > other if name == "max" else one < other

    def combine(left: Any, right: Any) -> Any:
        earlier = left[0] < right[0]
        kept = tirx.Or(better(left[1], right[1]), tirx.And(left[1].equal(right[1]), earlier))
        if has_nan:
            one, other = is_nan(left[1], dtype), is_nan(right[1], dtype)
            kept = tirx.Or(
                tirx.And(one, tirx.Or(tirx.Not(other), earlier)), tirx.And(tirx.Not(other), kept)
            )
        return (
            tirx.Select(kept, left[0], right[0]),
            tirx.Select(kept, left[1], right[1]),
        )

    def identity(index: str, dtype: str) -> Any:
        worst = -math.inf if name == "max" else math.inf
        if not has_nan:
            ends = np.iinfo(dtype)
            worst = ends.min if name == "max" else ends.max
        return tirx.const(_LAST, index), tirx.const(worst, dtype)

    return te.comm_reducer(combine, identity, f"arg{name}")


_SORTED = ("int32", "int64")
"""Element types that TVM's sorting knows, in which NaN cannot be."""


def argsort(bb: Any, call: Any) -> Any:
    """The stable order of integers that are ordered as the numbers, with NaN last."""
    x = call.args[0]
    if dtype_of(x) in _SORTED:
        return call
    attrs = call.attrs
    return relax.op.argsort(_keys(bb, x), int(attrs.axis), bool(attrs.descending), dtype_of(call))


def sort(bb: Any, call: Any) -> Any:
    """The numbers in the order of ``argsort``."""
    x, axis = call.args[0], int(call.attrs.axis)
    if dtype_of(x) in _SORTED:
        return call
    places = bb.emit(relax.op.argsort(_keys(bb, x), axis, bool(call.attrs.descending), "int64"))
    return relax.op.gather_elements(x, places, axis % len(shape_of(x)))


def topk(bb: Any, call: Any) -> Any:
    """The first of the numbers in the order of ``argsort``, and their places."""
    x, attrs = call.args[0], call.attrs
    if dtype_of(x) in _SORTED:
        return call
    axis, kind = int(attrs.axis) % len(shape_of(x)), str(attrs.ret_type)
    places = bb.emit(relax.op.argsort(_keys(bb, x), axis, bool(attrs.largest), "int64"))
    places = bb.emit(relax.op.strided_slice(places, [axis], [0], [int(attrs.k)]))
    values = bb.emit(relax.op.gather_elements(x, places, axis))
    places = bb.emit(relax.op.astype(places, str(attrs.dtype)))
    if kind == "both":
        return relax.Tuple([values, places])
    return values if kind == "values" else places


def _keys(bb: Any, x: Any) -> Any:
    """Integers in the order of floating-point numbers; both zeros are equal, and NaN is last."""
    if not is_inexact(dtype_of(x)):
        return bb.emit(relax.op.astype(x, "int64" if dtype_of(x) == "uint32" else "int32"))
    wide = "float64" if dtype_of(x) == "float64" else "float32"
    bits, magnitude = (64, 2**63 - 1) if wide == "float64" else (32, 2**31 - 1)
    dtype = f"int{bits}"

    def key(value: Any) -> Any:
        value = value.astype(wide)
        zero = tirx.const(0, wide)
        value = tirx.Select(value.equal(zero), zero, value)  # both zeros
        number = tirx.reinterpret(dtype, value)
        turned = tirx.bitwise_xor(number, tirx.const(magnitude, dtype))
        signed = tirx.Select(number < tirx.const(0, dtype), turned, number)
        return tirx.Select(tirx.isnan(value), tirx.const(magnitude, dtype), signed)

    def keys(data: te.Tensor) -> te.Tensor:
        return te.compute(data.shape, lambda *index: key(data[index]), "sort_key")

    return bb.emit(bb.call_te(keys, x, primfunc_name_hint="sort_key"))
