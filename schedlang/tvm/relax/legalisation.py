"""Our legalisation of Relax operators, where TVM's own is wrong, imprecise or missing.

``legalised`` applies the rules by the operators' names. Those on maxima, minima and orders are in
``extremes``, with what all rules share.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx, topi, transform

from schedlang.tvm.relax.extremes import (
    Rule,
    adaptive_mean,
    argsort,
    clip,
    computed_as,
    default,
    first_place,
    max_pool,
    number,
    paired,
    pairwise,
    reduction,
    relu,
    sort,
    topk,
)
from schedlang.tvm.relax.network_program import shape_of
from schedlang.tvm.values import dtype_of, element_bits, is_floating

# -- Operators on element types for which TVM's code generator has no instruction -----------------


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


# -- Sums, differences and products of integers that wrap as torch's do ---------------------------
#
# TVM's simplifier takes it that no integer overflows, and its code generator tells LLVM so, for
# signed ones and for unsigned ones of 32 and more bits: ``(x * 4 + 4) // 4`` becomes ``x + 1``, and
# ``x + 3 == 2`` of unsigned ones is false. So nothing overflows here: what may is computed in more
# bits, or in two halves, and brought back into its range.

_NARROW = ("int8", "uint8", "int16")  # products of uint16 do not fit int32
_WIDE = ("int32", "int64")

_OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
}


def wrapping(name: str, rule: Rule = default) -> Rule:
    """Return the rule of ``relax.add``, ``subtract``, ``multiply``, ``negative`` or ``sum``.

    ``rule`` is that of numbers and of unsigned integers of 16 and more bits.
    """

    def computed(bb: Any, call: Any) -> Any:
        dtype = dtype_of(call)
        known = dtype in _NARROW + _WIDE
        tensors = [one for one in call.args if number(one) is None]
        if not known or not tensors or any(dtype_of(one) != dtype for one in call.args):
            return rule(bb, call)
        if name == "sum":
            return _total(bb, call, dtype)

        def element(*given: Any) -> Any:
            left = iter(given)
            operands = [_operand(one, left, dtype) for one in call.args]
            if dtype in _WIDE:
                return _OPERATIONS[name](*map(_Halves.of, operands)).joined
            return _within(_OPERATIONS[name](*operands), dtype)

        made = paired(element) if len(tensors) == 2 else _each(element)
        return bb.call_te(made, *tensors, primfunc_name_hint=name)

    return computed


def _operand(item: Any, elements: Iterator[Any], dtype: str) -> Any:
    """Return an operand of one element, in the type in which it is computed."""
    wide = dtype if dtype in _WIDE else "int32"
    if number(item) is None:
        return next(elements).astype(wide)
    return tirx.const(int(item.value.numpy()), wide)


def _total(bb: Any, call: Any, dtype: str) -> Any:
    """Return the sum along axes: in 64 bits, or that of halves of 64 bits."""

    def total(part: Any) -> Any:
        return bb.emit(default(bb, bb.normalize(relax.Call(call.op, [part], call.attrs))))

    def half(name: str) -> Any:
        made = _each(lambda value: getattr(_Halves.of(value), name))
        return total(bb.emit(bb.call_te(made, call.args[0])))

    if dtype != "int64":
        wide = total(bb.emit(relax.op.astype(call.args[0], "int64")))
        return bb.call_te(_each(lambda value: _within(value, dtype)), wide)
    made = paired(lambda high, low: _Halves(high, low, 32).joined)
    return bb.call_te(made, half("high"), half("low"))


def _each(function: Callable[[Any], Any]) -> Callable[[te.Tensor], te.Tensor]:
    return lambda x: te.compute(x.shape, lambda *place: function(x(*place)), "compute")


def _low(value: Any, bits: int) -> Any:
    """Return the lowest bits of an integer, as a number of zero or more."""
    return value & tirx.const(2**bits - 1, dtype_of(value))


def _down(value: Any, bits: int) -> Any:
    return value >> tirx.const(bits, dtype_of(value))


def _signed(value: Any, bits: int) -> Any:
    """Return the lowest bits of an integer, of which the first is the sign."""
    half = tirx.const(2 ** (bits - 1), dtype_of(value))
    return _low(value + half, bits) - half


def _within(value: Any, dtype: str) -> Any:
    """Return an integer in a narrower type: its lowest bits."""
    bits = element_bits(dtype)
    return (_signed(value, bits) if dtype.startswith("int") else _low(value, bits)).astype(dtype)


@dataclass(frozen=True)
class _Halves:
    """The integer ``high * 2**bits + low`` of ``2 * bits`` bits, of which both have as many.

    They may be larger on the way: sums of few halves, and of few products of quarters, fit.
    """

    high: Any
    low: Any
    bits: int

    @classmethod
    def of(cls, value: Any) -> _Halves:
        """Return the upper half of an integer, with its sign, and the lower one without."""
        bits = element_bits(dtype_of(value)) // 2
        return cls(_down(value, bits), _low(value, bits), bits)

    @property
    def joined(self) -> Any:
        """The integer, wrapped.

        Of bits, TVM makes nothing else: ``(h - 2**15) * 2**16`` becomes a difference that
        overflows.
        """
        high = _signed(self.high + _down(self.low, self.bits), self.bits)
        return (high << tirx.const(self.bits, dtype_of(high))) | _low(self.low, self.bits)

    def __add__(self, other: _Halves) -> _Halves:
        return _Halves(self.high + other.high, self.low + other.low, self.bits)

    def __sub__(self, other: _Halves) -> _Halves:
        return _Halves(self.high - other.high, self.low - other.low, self.bits)

    def __neg__(self) -> _Halves:
        return _Halves(-self.high, -self.low, self.bits)

    def __mul__(self, other: _Halves) -> _Halves:
        bits, quarter = self.bits, self.bits // 2
        upper = self.low * _down(other.low, quarter)
        lower = self.low * _low(other.low, quarter)
        crossed = _low(self.high * other.low, bits) + _low(self.low * other.high, bits)
        raised = _low(upper, quarter) << tirx.const(quarter, dtype_of(upper))
        return _Halves(crossed + _down(upper, quarter), raised + lower, bits)


# -- The rules by the names of operators ----------------------------------------------------------

_COMPARED = ("less", "less_equal", "greater", "greater_equal")
_WIDENED = ("sinh", "cosh", "asinh", "acosh", "atanh", "asin", "acos", "atan", "atan2", "tan")

RULES: dict[str, Rule] = {
    "relax.nn.relu": relu,
    "relax.clip": clip,
    "relax.maximum": of_booleans(pairwise("max")),
    "relax.minimum": of_booleans(pairwise("min")),
    "relax.max": reduction("max"),
    "relax.min": reduction("min"),
    "relax.argmax": first_place("max"),
    "relax.argmin": first_place("min"),
    "relax.argsort": argsort,
    "relax.sort": sort,
    "relax.topk": topk,
    **{f"relax.nn.max_pool{count}d": max_pool for count in (1, 2, 3)},
    **{f"relax.nn.adaptive_avg_pool{count}d": adaptive_mean for count in (1, 2, 3)},
    **{f"relax.{name}": of_booleans(default) for name in _COMPARED},
    "relax.equal": of_booleans(equal),
    "relax.add": of_booleans(wrapping("add")),
    "relax.subtract": wrapping("subtract"),
    "relax.multiply": of_booleans(wrapping("multiply", multiply)),
    "relax.sum": wrapping("sum"),
    "relax.not_equal": of_booleans(not_equal),
    "relax.negative": wrapping("negative", negative),
    "relax.sign": sign,
    **{f"relax.{name}": class_of(name) for name in ("isnan", "isinf", "isfinite")},
    "relax.log_add_exp": log_add_exp,
    **{f"relax.{name}": of_nothing for name in ("mean", "variance", "std")},
    "relax.power": widened,
    **{f"relax.{name}": widened for name in _WIDENED},
}


def legalised() -> transform.Pass:
    """Return the pass that makes functions of operators, by our rules and else by TVM's."""
    return relax.transform.LegalizeOps(RULES)
