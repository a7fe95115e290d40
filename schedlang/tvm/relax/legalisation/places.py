"""Where the largest and the smallest numbers are, and their order; a NaN is the largest of all."""

from __future__ import annotations

import math
from typing import Any

from tvm import relax, te, topi

from schedlang.tvm.relax.legalisation.rule import Rule, keys
from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.values import dtype_of, is_floating


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
        dtype = str(data.dtype)
        find = topi.argmax if name == "max" else topi.argmin
        if is_floating(dtype):
            return find(keys(data, unknown_first=name == "min"), axis)
        # Of the lowest numbers alone, TVM finds none.
        return find(topi.cast(data, "int64") if dtype != "int64" else data, axis)

    return rule


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
    if not is_floating(x):
        return bb.emit(relax.op.astype(x, "int64" if dtype_of(x) == "uint32" else "int32"))
    made = bb.call_te(lambda data: keys(data), x, primfunc_name_hint="sort_key")
    return bb.emit(made)
