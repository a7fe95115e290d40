"""Sums, differences and products of integers that wrap as torch's do.

TVM's simplifier takes it that no integer overflows, and its code generator tells LLVM so, for
signed ones and for unsigned ones of 32 and more bits: ``(x * 4 + 4) // 4`` becomes ``x + 1``, and
``x + 3 == 2`` of unsigned ones is false. So nothing overflows here: what may is computed in more
bits, or in two halves, and brought back into its range.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx

from schedlang.tvm.relax.legalisation.rule import Rule, default, number, paired
from schedlang.tvm.values import dtype_of, element_bits

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
