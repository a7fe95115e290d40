"""Divisions of torch that round, and their remainders.

``floor(a / b)`` is no quotient where ``a / b`` was rounded up to an integer, and NaN and infinities
take part as in Python: torch computes all three from the exact remainder of C's ``fmod``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from schedlang.tvm.relax.torch.arguments import Converter, argument, operands, pair, result_type
from schedlang.tvm.values import is_floating

Emit = Callable[[Any], Any]


def _rounded(importer: Any, node: Any) -> Any:
    mode, emit = argument(importer, node, 2, "rounding_mode"), importer.block_builder.emit
    if mode == "floor":
        return _floor(importer, node)
    dtype = result_type(node)
    left, right = operands(importer, node, dtype)
    quotient = emit(relax.op.divide(left, right))
    if mode == "trunc" and is_floating(dtype):
        return emit(relax.op.trunc(quotient))
    if mode is None:
        return quotient
    raise ValueError(f"a division of {dtype} that rounds by {mode!r}")


def _by_type(whole: Callable[[Any, Any], Any], inexact: Callable[..., Any]) -> Converter:
    """Return the converter of a division: ``whole`` of integers, ``inexact`` of other numbers."""

    def convert(importer: Any, node: Any) -> Any:
        dtype, emit = result_type(node), importer.block_builder.emit
        left, right = operands(importer, node, dtype)
        return inexact(emit, left, right, dtype) if is_floating(dtype) else emit(whole(left, right))

    return convert


def _floor_of_quotient(emit: Emit, left: Any, right: Any, dtype: str) -> Any:
    zero, one = relax.const(0, dtype), relax.const(1, dtype)
    rest = emit(relax.op.mod(left, right))
    whole = emit(relax.op.divide(emit(relax.op.subtract(left, rest)), right))
    whole = emit(
        relax.op.where(_turned(emit, rest, right, zero), emit(relax.op.subtract(whole, one)), whole)
    )
    floor = emit(relax.op.floor(whole))
    missing = emit(relax.op.greater(emit(relax.op.subtract(whole, floor)), relax.const(0.5, dtype)))
    floor = emit(relax.op.where(missing, emit(relax.op.add(floor, one)), floor))
    by_zero = emit(relax.op.equal(right, zero))
    return emit(relax.op.where(by_zero, emit(relax.op.divide(left, right)), floor))


def _remainder_like_divisor(emit: Emit, left: Any, right: Any, dtype: str) -> Any:
    rest = emit(relax.op.mod(left, right))
    turned = _turned(emit, rest, right, relax.const(0, dtype))
    return emit(relax.op.where(turned, emit(relax.op.add(rest, right)), rest))


def _turned(emit: Emit, rest: Any, divisor: Any, zero: Any) -> Any:
    """Whether a remainder has another sign than the divisor."""
    signs = emit(
        relax.op.not_equal(emit(relax.op.less(rest, zero)), emit(relax.op.less(divisor, zero)))
    )
    return emit(relax.op.logical_and(emit(relax.op.not_equal(rest, zero)), signs))


_floor = _by_type(relax.op.floor_divide, _floor_of_quotient)
_remainder = _by_type(relax.op.floor_mod, _remainder_like_divisor)
DIVISION: dict[str, Converter] = {
    "div.Tensor_mode": _rounded,
    "div.Scalar_mode": _rounded,
    "floor_divide.default": _floor,
    "remainder.Tensor": _remainder,
    "remainder.Scalar": _remainder,
    "fmod.Tensor": pair(relax.op.mod, result_type),
    "fmod.Scalar": pair(relax.op.mod, result_type),
}
