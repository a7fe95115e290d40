"""Where a network indexes or divides by what it is given: proven harmless, or checked in each call.

Indices that are constants, places along an axis, or clipped are proven. Others are looked at when
the network runs, before they are used. Tensor functions are also bounded: whatever integers they
read, they touch no foreign memory and end no process.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax, tirx, transform
from tvm.ir import IRModule, Range, TensorLoad
from tvm.ir.expr import TensorRegion
from tvm.s_tir import SBlockRealize
from tvm.script import tirx as T
from tvm.sym import Analyzer
from tvm_ffi import structural_map

from schedlang.errors import NetworkError, ValueOutOfRangeError
from schedlang.tvm import program
from schedlang.tvm.relax.integer_ranges import Ranges, check_call, check_of, index_check
from schedlang.tvm.relax.network_program import (
    bindings,
    fields,
    named_weights,
    operator,
    shape_of,
    substituted,
    weights_of,
    with_arguments,
    with_main,
)
from schedlang.tvm.values import (
    DIVISIONS,
    constant,
    dtype_of,
    found_in,
    has_loads,
    holds,
    is_integer,
    mentions,
)


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


# -- The tensor function that checks integers -----------------------------------------------------
#
# An ``assert`` of TVM's is not compiled into networks, as those of arguments are not. The error is
# raised as TVM's own code does: machines, exported libraries and libraries for C hand it on.

CHECK = "schedlang.check"
"""The attribute of these functions."""
_KIND = f"schedlang.{ValueOutOfRangeError.__name__}"
# As the operator pattern of Relax: it is fused with nothing.
_OPAQUE = 8


def is_check(func: Any) -> bool:
    """Tell whether a tensor function only checks its argument."""
    return bool(func.attrs and func.attrs.get(CHECK, False))


def names_of_checks(mod: IRModule) -> set[str]:
    """Return the names of the tensor functions of a network that only check their argument."""
    return {name for name, func in program.named_functions(mod).items() if is_check(func)}


def check_function(
    shape: Sequence[int], dtype: str, bounds: tuple[int, int] | None, message: str
) -> tirx.PrimFunc:
    """Return a function of a tensor of integers that copies it.

    ``bounds`` are the least and the largest value that pass; with None all but zero do. A call
    with another value is an error with the message.
    """
    count = math.prod(shape)

    def is_wrong(value: Any) -> Any:
        if bounds is None:
            return value == tirx.const(0, dtype)
        low, high = (tirx.const(bound, dtype) for bound in bounds)
        return tirx.any(value < low, value > high)

    @T.prim_func(private=True, s_tir=True)  # type: ignore[untyped-decorator]
    def check(given: T.handle, checked: T.handle) -> None:
        T.func_attr({"op_pattern": _OPAQUE, "tirx.noalias": True, CHECK: True})
        source = T.match_buffer(given, (count,), dtype)
        copy = T.match_buffer(checked, (count,), dtype)
        wrong = T.sblock_alloc_buffer((1,), "int32")
        wrong[0] = 0
        for place in range(count):
            copy[place] = source[place]
            wrong[0] = wrong[0] | T.Cast("int32", is_wrong(source[place]))
        if wrong[0] != 0:
            T.call_extern("void", "TVMFFIErrorSetRaisedFromCStr", _KIND, message)
            T.evaluate(T.tvm_throw_last_error())

    return check


# -- Tensor functions that touch no foreign memory and end no process -----------------------------
#
# An index that depends on data and may leave its buffer is clamped to it, and an integer divisor
# that may be zero is replaced by one where it is: what a check has refused by then, or what nobody
# sees. The quotient of the least integer and -1 wraps, as differences do; hardware refuses it too.


def bounded() -> transform.Pass:
    """Return the pass that bounds indices and divisors of all tensor functions of a network."""

    def bound(func: Any, *_: Any) -> Any:
        return _Bounding(func).bounded()

    return tirx.transform.prim_func_pass(bound, opt_level=0)


class _Bounding:
    """What is known of the integers of one function."""

    def __init__(self, func: tirx.PrimFunc) -> None:
        self._func = func
        self._analyzer = Analyzer()
        self._read: list[Any] = []  # variables whose values or ranges are read from a tensor
        ranges = [(one.loop_var, one.min, one.extent) for one in found_in(func.body, tirx.For)]
        sources = [*ranges]
        for realize in found_in(func.body, SBlockRealize):
            for one, value in zip(realize.block.iter_vars, realize.iter_values, strict=True):
                ranges.append((one.var, one.dom.min, one.dom.extent))
                sources.append((one.var, one.dom.extent, value))
        for binding in found_in(func.body, (tirx.Bind, tirx.Let)):
            sources.append((binding.var, binding.value, binding.value))
        found = -1
        while found != len(self._read):  # one may be read through others
            found = len(self._read)
            for var, one, other in sources:
                if not holds(self._read, var) and (self._is_read(one) or self._is_read(other)):
                    self._read.append(var)
        for var, least, extent in ranges:
            low, count = constant(least), constant(extent)
            if low is not None and count and count > 0 and not holds(self._read, var):
                self._analyzer.bind(var, Range.from_min_extent(low, count))

    def _is_read(self, value: Any) -> bool:
        """Tell whether a value depends on what a tensor holds."""
        return has_loads(value) or bool(self._read and mentions(value, self._read))

    def bounded(self) -> tirx.PrimFunc:
        """Return the function; itself where all is proven."""
        accesses = found_in(self._func.body, (TensorLoad, tirx.BufferStore))
        divisions = found_in(self._func.body, DIVISIONS)
        indices = (index for one in accesses for index in one.indices)
        divisors = (one.b for one in divisions)
        if not any(map(self._is_read, (*indices, *divisors))):
            return self._func
        callbacks = [
            (TensorLoad, self._load),
            (tirx.BufferStore, self._store),
            (TensorRegion, self._region),
            (DIVISIONS, self._division),
        ]
        body = structural_map(self._func.body, callbacks)
        return self._func if body.same_as(self._func.body) else self._func.with_body(body)

    def _load(self, load: Any) -> Any:
        indices = self._clamped(load.indices, load.source.shape)
        return load if indices is None else tirx.BufferLoad(load.source, indices)

    def _store(self, store: Any) -> Any:
        indices = self._clamped(store.indices, store.buffer.shape)
        return store if indices is None else tirx.BufferStore(store.buffer, store.value, indices)

    def _region(self, region: Any) -> Any:
        if any(constant(one.extent) != 1 for one in region.region if self._is_read(one.min)):
            return region
        indices = self._clamped([one.min for one in region.region], region.source.shape)
        if indices is None:
            return region
        pairs = zip(indices, region.region, strict=True)
        ranges = [Range.from_min_extent(index, one.extent) for index, one in pairs]
        return tirx.BufferRegion(region.source, ranges)

    def _clamped(self, indices: Sequence[Any], shape: Sequence[Any]) -> list[Any] | None:
        """Return indices inside a buffer; None where they are."""
        made = [self._inside(*pair) for pair in zip(indices, shape, strict=True)]
        same = all(one.same_as(was) for one, was in zip(made, indices, strict=True))
        return None if same else made

    def _inside(self, index: Any, extent: Any) -> Any:
        count = constant(extent)
        if count is None or not self._is_read(index):
            return index
        known = self._analyzer.const_int_bound(index)
        if known.min_value >= 0 and known.max_value < count:
            return index
        dtype = dtype_of(index)
        low, high = tirx.const(0, dtype), tirx.const(max(count - 1, 0), dtype)
        return tirx.min(tirx.max(index, low), high)

    def _division(self, division: Any) -> Any:
        divisor, dtype = division.b, dtype_of(division)
        if not is_integer(dtype) or constant(divisor) is not None:
            return division
        known = self._analyzer.const_int_bound(divisor)
        if not self._is_read(divisor) or known.min_value > 0:
            return division
        one = tirx.const(1, dtype)
        safe = tirx.Select(divisor == tirx.const(0, dtype), one, divisor)
        if dtype.startswith("uint"):
            return type(division)(division.a, safe)
        negated = divisor == tirx.const(-1, dtype)
        made = type(division)(division.a, tirx.Select(negated, one, safe))
        whole = isinstance(division, tirx.FloorDiv | tirx.Div)
        zero = tirx.const(0, dtype)
        return tirx.Select(negated, zero - division.a if whole else zero, made)
