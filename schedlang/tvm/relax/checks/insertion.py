"""Where a network indexes or divides by what it is given: proven harmless, or checked in each call.

Indices that are constants, places along an axis, or clipped are proven. Others are looked at when
the network runs, before they are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import IRModule

from schedlang.errors import NetworkError
from schedlang.tvm.relax.checks.function import check_function
from schedlang.tvm.relax.checks.ranges import Range, Ranges, check_call, checked_by
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

Wanted = tuple[int, Range | None]
"""The position of an argument, and its bounds; None for all but zero."""


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
    arguments = list(value.args) if isinstance(value, relax.Call) else []
    wanted = _WANTED.get(operator(value))
    for place, bounds in wanted(value) if wanted else ():
        arguments[place] = builder.emit(check_call(arguments[place], bounds))
    if operator(value) == "relax.take":  # "fast" reads anywhere in memory
        mode = str(value.attrs.mode).replace("fast", "clip")
        return relax.op.take(*arguments, axis=value.attrs.axis, mode=mode)
    return with_arguments(value, arguments) if wanted else value


def _settled(builder: Any, value: Any, old: Any, ranges: Ranges) -> Any:
    """Return what was checked where it is proven, else the call of a function that checks it."""
    found, before = checked_by(value), checked_by(old)
    if found is None or before is None:
        return value
    (item, bounds), (low, high) = found, ranges.of(before[0])
    if math.prod(shape_of(item)) == 0:
        return item
    if bounds is None:
        what = "a division of integers by zero"
        proven, hopeless = low > 0 or high < 0, low == high == 0
    else:
        what = f"an index is out of range: it has to be from {bounds[0]} to {bounds[1]}"
        proven = bounds[0] <= low and high <= bounds[1]
        hopeless = bounds[1] < low or high < bounds[0]
    if hopeless:
        raise NetworkError(f"{what}, in every call of the model")
    if proven:
        return item
    shape = (math.prod(shape_of(item)),)
    flat = builder.emit(relax.op.reshape(item, shape))
    made = check_function(shape, dtype_of(item), bounds, what)
    checked = builder.emit(
        relax.call_tir(builder.add_func(made, "check"), (flat,), flat.ty)
    )
    return relax.op.reshape(checked, shape_of(item))


def _within(extent: int, negative: bool = False) -> Range:
    return (-extent if negative else 0, max(extent, 1) - 1)


def _taken(call: Any) -> Iterator[Wanted]:
    """``take`` clips by itself where it is told to."""
    if str(call.attrs.mode) == "fast":
        shape, axis = shape_of(call.args[0]), call.attrs.axis
        extent = math.prod(shape) if axis is None else shape[int(axis)]
        yield 1, _within(extent)


def _along_axis(call: Any) -> Iterator[Wanted]:
    yield 1, _within(shape_of(call.args[0])[int(call.attrs.axis)])


def _scattered(call: Any) -> Iterator[Wanted]:
    """A negative index counts from the end."""
    yield 1, _within(shape_of(call.args[0])[int(call.attrs.axis)], negative=True)


def _divided(call: Any) -> Iterator[Wanted]:
    if is_integer(call.args[1]):
        yield 1, None


_WANTED: dict[str, Callable[[Any], Iterator[Wanted]]] = {
    "relax.take": _taken,
    "relax.gather_elements": _along_axis,
    "relax.scatter_elements": _scattered,
    **{f"relax.{name}": _divided for name in ("divide", "floor_divide", "floor_mod", "mod")},
}
