"""Where a network indexes or divides by what it is given: proven harmless, or checked in each call.

Indices that are constants, places along an axis, or clipped are proven. Others are looked at when
the network runs, before they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import IRModule

from schedlang.errors import NetworkError
from schedlang.tvm.relax.checks.calls import check_call, check_of, index_check
from schedlang.tvm.relax.checks.function import check_function
from schedlang.tvm.relax.checks.ranges import Ranges
from schedlang.tvm.relax.program import (
    bindings,
    operator,
    shape_of,
    substituted,
    weights_of,
    with_arguments,
)
from schedlang.tvm.relax.rewriting import fields, named_weights, with_main
from schedlang.tvm.values import dtype_of, is_integer


@dataclass(frozen=True)
class _Indices:
    """An argument that holds indices.

    Attributes
    ----------
    place: which argument.
    extents: of the axes that are indexed: one, or one for each tensor of a tuple, or for each
        component along the last axis.
    negative: whether negative indices count from the end of the axis.
    """

    place: int
    extents: Sequence[int]
    negative: bool = False


def with_checks(mod: IRModule, parameters: Mapping[str, np.ndarray]) -> IRModule:
    """Return a network of Relax operators in which no index is out of range and no divisor zero.

    Raises ``NetworkError`` where every call would be wrong.
    """
    values = {var: value for var, (_, value) in named_weights(mod, parameters).items()}
    marked = _rewritten(mod, _marked)
    # Main has new variables of the same order.
    values = dict(zip(weights_of(marked), values.values(), strict=True))
    ranges = Ranges(marked, values)
    return _rewritten(marked, lambda builder, value, old: _settled(builder, value, old, ranges))


Change = Callable[[Any, Any, Any], Any]
"""From the builder, a value of a binding with new variables, and the old value to the new one."""


def _rewritten(mod: IRModule, change: Change) -> IRModule:
    made: dict[Any, Any] = {}

    def current(item: Any) -> Any:
        return made.get(item, item)

    def write(builder: Any) -> Any:
        for var, value in bindings(mod):
            made[var] = builder.emit(change(builder, substituted(value, current), value))
        return relax.Tuple([substituted(field, current) for field in fields(mod)])

    return with_main(mod, weights_of(mod), write)


def _marked(builder: Any, value: Any, _: Any) -> Any:
    """Return a call whose arguments are checked."""
    name = operator(value)
    if not isinstance(value, relax.Call) or name not in (*_INDICES, *_DIVISIONS):
        return value
    arguments = list(value.args)
    found = _INDICES[name](value) if name in _INDICES else None
    if found is not None:
        arguments[found.place] = _checked(builder, arguments[found.place], found, name)
    elif name in _DIVISIONS and is_integer(arguments[1]):
        arguments[1] = builder.emit(check_call(arguments[1], None, _DIVIDED_BY_ZERO))
    if name == "relax.take" and str(value.attrs.mode) == "fast":  # it reads anywhere in memory
        return relax.op.take(*arguments, axis=value.attrs.axis, mode="clip")
    return with_arguments(value, arguments)


def _checked(builder: Any, item: Any, indices: _Indices, name: str) -> Any:
    """Return what gives the item, and is checked."""
    name = name.removeprefix("relax.")

    def checked(part: Any, extent: int) -> Any:
        return builder.emit(index_check(part, extent, name, negative=indices.negative))

    if isinstance(item, relax.Tuple):
        return relax.Tuple([*map(checked, item.fields, indices.extents)])
    if len(set(indices.extents)) == 1:
        return checked(item, indices.extents[0])
    last, parts = len(shape_of(item)) - 1, []
    for place, extent in enumerate(indices.extents):
        part = builder.emit(relax.op.strided_slice(item, [last], [place], [place + 1]))
        parts.append(checked(part, extent))
    return builder.emit(relax.op.concat(parts, last))


def _settled(builder: Any, value: Any, old: Any, ranges: Ranges) -> Any:
    """Return what was checked where it is proven, else the call of a function that checks it."""
    check, before = check_of(value), check_of(old)
    if check is None or before is None:
        return value
    item, (low, high) = check.item, ranges.of(before.item)
    if math.prod(shape_of(item)) == 0:
        return item
    if check.bounds is None:
        proven, hopeless = low > 0 or high < 0, low == high == 0
    else:
        least, most = check.bounds
        proven, hopeless = least <= low and high <= most, most < low or high < least
    if hopeless:
        raise NetworkError(f"in every call of the model, {check.message}")
    if proven:
        return item
    shape = (math.prod(shape_of(item)),)
    flat = builder.emit(relax.op.reshape(item, shape))
    made = check_function(shape, dtype_of(item), check.bounds, check.message)
    checked = builder.emit(relax.call_tir(builder.add_func(made, "check"), (flat,), flat.ty))
    return relax.op.reshape(checked, shape_of(item))


def _taken(call: Any) -> _Indices | None:
    """``take`` clips or wraps by itself where it is told to."""
    if str(call.attrs.mode) != "fast" or not isinstance(call.args[1].ty, relax.TensorType):
        return None
    shape, axis = shape_of(call.args[0]), call.attrs.axis
    return _Indices(1, [math.prod(shape) if axis is None else shape[int(axis)]])


def _along_axis(negative: bool) -> Callable[[Any], _Indices]:
    def found(call: Any) -> _Indices:
        shape = shape_of(call.args[0])
        return _Indices(1, [shape[int(call.attrs.axis)] if shape else 1], negative)

    return found


def _coordinates(call: Any) -> _Indices | None:
    """Along the last axis of the indices are those of the axes of the tensor."""
    skipped, count = int(getattr(call.attrs, "batch_dims", 0)), shape_of(call.args[1])[-1]
    return _Indices(1, shape_of(call.args[0])[skipped : skipped + count]) if count else None


def _of_axes(negative: bool) -> Callable[[Any], _Indices | None]:
    """A tensor of indices for each of the first axes."""

    def found(call: Any) -> _Indices | None:
        tensors = call.args[1]
        if not isinstance(tensors, relax.Tuple) or not all(map(is_integer, tensors.fields)):
            return None  # functions that read them bound them
        return _Indices(1, shape_of(call.args[0])[: len(tensors.fields)], negative)

    return found


_DIVIDED_BY_ZERO = "an integer is divided by zero"
_DIVISIONS = tuple(f"relax.{name}" for name in ("divide", "floor_divide", "floor_mod", "mod"))
_INDICES: dict[str, Callable[[Any], _Indices | None]] = {
    "relax.take": _taken,
    "relax.gather_elements": _along_axis(negative=False),
    "relax.scatter_elements": _along_axis(negative=True),
    "relax.gather_nd": _coordinates,
    "relax.scatter_nd": _coordinates,
    "relax.index_tensor": _of_axes(negative=False),
    "relax.index_put": _of_axes(negative=True),
}
