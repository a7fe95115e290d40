"""Tensor functions that touch no foreign memory and end no process, whatever integers they read.

An index that depends on data and may leave its buffer is clamped to it, and an integer divisor
that may be zero is replaced by one where it is: what a check has refused by then, or what nobody
sees. The quotient of the least integer and -1 wraps, as differences do; hardware refuses it too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx, transform
from tvm.ir import Range, TensorLoad
from tvm.ir.expr import TensorRegion
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm_ffi import structural_map

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
