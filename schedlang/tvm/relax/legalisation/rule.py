"""What a rule of legalisation is, and what several of them do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te, topi
from tvm.ir import GenericConst

from schedlang.tvm.relax.program import shape_of

Rule = Callable[[Any, Any], Any]
"""From the block builder and the call of an operator to an expression without it."""


def default(bb: Any, call: Any) -> Any:
    """Return what TVM makes of a call of an operator."""
    return call.op.get_attr("FLegalize")(bb, call)


def computed_as(bb: Any, call: Any, dtype: str) -> Any:
    """Emit a call of the same operator on its arguments in another element type."""
    values = [bb.emit(relax.op.astype(value, dtype)) for value in call.args]
    return bb.emit(relax.Call(call.op, values, call.attrs))


def number(value: Any) -> float | None:
    """Return the value of a constant without axes; None for any other expression."""
    if isinstance(value, GenericConst) and not shape_of(value):
        return float(value.value.numpy())
    return None


def paired(function: Callable[[Any, Any], Any]) -> Callable[[te.Tensor, te.Tensor], te.Tensor]:
    """Return a function of two tensors, broadcast against each other, from one of two elements."""

    def made(one: te.Tensor, other: te.Tensor) -> te.Tensor:
        shape = topi.utils.get_const_tuple(topi.add(one, other).shape)
        one, other = topi.broadcast_to(one, shape), topi.broadcast_to(other, shape)
        return te.compute(shape, lambda *place: function(one[place], other[place]), "compute")

    return made
