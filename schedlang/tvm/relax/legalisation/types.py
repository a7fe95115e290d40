"""Operators on element types for which TVM's code generator has no instruction."""

from __future__ import annotations

import math
from typing import Any

from tvm import relax, te, tirx, topi

from schedlang.tvm.relax.legalisation.rule import Rule, computed_as, default, number, paired
from schedlang.tvm.relax.program import shape_of
from schedlang.tvm.values import dtype_of, is_floating


def of_booleans(rule: Rule = default) -> Rule:
    """Return the rule of an operator that computes booleans as small integers."""

    def computed(bb: Any, call: Any) -> Any:
        if dtype_of(call.args[0]) != "bool":
            return rule(bb, call)
        made = computed_as(bb, call, "int8")
        return relax.op.astype(made, "bool") if dtype_of(made) != "bool" else made

    return computed


def widened(bb: Any, call: Any) -> Any:
    """Compute half precision in float32, for functions of which LLVM has no other form."""
    dtype = dtype_of(call.args[0])
    if dtype not in ("float16", "bfloat16"):
        return default(bb, call)
    return relax.op.astype(computed_as(bb, call, "float32"), dtype)


def not_equal(bb: Any, call: Any) -> Any:
    """A NaN differs from every number; to the code generator it does not."""
    one, other = call.args
    if not is_floating(one):
        return default(bb, call)

    def differ(a: Any, b: Any) -> Any:
        return tirx.any(a < b, b < a, _is_nan(a, dtype_of(one)), _is_nan(b, dtype_of(one)))

    return bb.call_te(paired(differ), one, other, primfunc_name_hint="not_equal")


def equal(bb: Any, call: Any) -> Any:
    """A NaN differs from itself; TVM's simplifier takes ``x == x`` for true."""
    one, other = call.args
    if is_floating(one) and one.same_as(other):
        return relax.op.logical_not(bb.emit(relax.op.isnan(one)))
    return default(bb, call)


def multiply(bb: Any, call: Any) -> Any:
    """A product with the number zero is NaN where the other factor is not finite."""
    for zero, x in (call.args, reversed(call.args)):
        if number(zero) == 0 and is_floating(x):
            return bb.call_te(_nothing, x, primfunc_name_hint="multiply")
    return default(bb, call)


def _nothing(x: te.Tensor) -> te.Tensor:
    def element(*place: Any) -> Any:
        zero, nan = (tirx.const(value, x.dtype) for value in (0, math.nan))
        magnitude = tirx.Select(x[place] < zero, -x[place], x[place])
        return tirx.Select(magnitude < tirx.const(math.inf, x.dtype), zero, nan)

    return te.compute(x.shape, element, "compute")


def negative(bb: Any, call: Any) -> Any:
    """``-x``; of unsigned integers ``0 - x``."""
    x = call.args[0]
    if not dtype_of(x).startswith("uint"):
        return default(bb, call)
    return relax.op.subtract(relax.const(0, dtype_of(x)), x)


def sign(bb: Any, call: Any) -> Any:
    """-1, 0 or 1; of unsigned integers and booleans 0 or 1."""
    x, dtype = call.args[0], dtype_of(call.args[0])
    if dtype == "bool":
        return x
    if not dtype.startswith("uint"):
        return default(bb, call)
    return relax.op.astype(bb.emit(relax.op.greater(x, relax.const(0, dtype))), dtype)


def class_of(name: str) -> Rule:
    """Return the rule of ``relax.isnan``, ``relax.isinf`` or ``relax.isfinite``."""

    def rule(bb: Any, call: Any) -> Any:
        x, dtype = call.args[0], dtype_of(call.args[0])
        if not is_floating(dtype):
            return relax.op.full(shape_of(x), relax.const(name == "isfinite", "bool"), "bool")
        if name == "isnan":
            return bb.call_te(_each_is_nan, x, primfunc_name_hint="tir_isnan")
        magnitude, infinite = bb.emit(relax.op.abs(x)), relax.const(math.inf, dtype)
        compared = relax.op.equal if name == "isinf" else relax.op.less
        return compared(magnitude, infinite)

    return rule


def _each_is_nan(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *place: _is_nan(x[place], x.dtype), "compute")


def _is_nan(value: Any, dtype: Any) -> Any:
    return tirx.isnan(value.astype("float32") if str(dtype) == "bfloat16" else value)


def of_nothing(bb: Any, call: Any) -> Any:
    """The mean and the variance of no numbers are NaN."""
    x, axes = call.args[0], call.attrs.axis
    shape = shape_of(x)
    extents = shape if axes is None else [shape[int(axis)] for axis in axes]
    if 0 not in extents or not is_floating(x):
        return default(bb, call)
    return bb.call_te(topi.full, shape_of(call), dtype_of(x), math.nan)


def log_add_exp(bb: Any, call: Any) -> Any:
    """``log(exp(a) + exp(b))`` without overflow, also where both are the same infinity."""
    one, other = call.args
    dtype, emit = dtype_of(one), bb.emit
    distance = emit(relax.op.abs(emit(relax.op.subtract(one, other))))
    small = emit(relax.op.exp(emit(relax.op.negative(distance))))
    grown = emit(relax.op.log(emit(relax.op.add(small, relax.const(1, dtype)))))
    apart = emit(relax.op.add(emit(relax.op.maximum(one, other)), grown))
    twice = emit(relax.op.add(one, relax.const(math.log(2), dtype)))
    return relax.op.where(emit(relax.op.equal(one, other)), twice, apart)
