"""What a rule of legalisation is, what several of them do, and integers in the order of numbers.

Among these keys, NaN is larger than all others. The code generator has an instruction for the
maximum of integers, and TVM's schedule primitives know the reduction: a reduction of these keys is
as fast as one of numbers that loses NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te, tirx, topi
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
        return te.compute(shape, lambda *place: function(one(*place), other(*place)), "compute")

    return made


_BITS = {"float64": 64}


def is_number(value: Any) -> Any:
    """Return whether a number of a tensor program is not NaN.

    The comparison becomes a vector instruction, and ``isnan`` does not; TVM's simplifier takes
    ``x == x`` for true, but not this one.
    """
    return tirx.LE(value, value)


def key_type(dtype: str) -> str:
    """Return the element type of the keys of a floating-point type."""
    return f"int{_BITS.get(dtype, 32)}"


def _wide(dtype: str) -> str:
    return "float64" if dtype == "float64" else "float32"


def _magnitude(dtype: str) -> Any:
    """All bits but the sign's."""
    kind = key_type(dtype)
    return tirx.const(2 ** (int(kind[3:]) - 1) - 1, kind)


def _quiet(dtype: str) -> Any:
    """The bits of NaN, which are its key."""
    kind = key_type(dtype)
    return tirx.const(0x7FF8 << 48 if kind == "int64" else 0x7FC0 << 16, kind)


def key(value: Any, dtype: str, *, ties: bool = False, unknown_first: bool = False) -> Any:
    """Return the key of a number of a tensor program.

    Parameters
    ----------
    dtype: the element type of the number.
    ties: whether both zeros have one key; else -0.0 comes before 0.0.
    unknown_first: whether NaN is smaller than all others instead.
    """
    kind, magnitude, zero = key_type(dtype), _magnitude(dtype), tirx.const(0, _wide(dtype))
    value = value.astype(_wide(dtype))
    if ties:
        value = tirx.Select(value.equal(zero), zero, value)
    bits = tirx.reinterpret(kind, value)
    turned = bits ^ ((bits >> tirx.const(int(kind[3:]) - 1, kind)) & magnitude)
    quiet = _quiet(dtype)
    unknown = ~quiet if unknown_first else quiet
    return tirx.Select(is_number(value), turned, unknown)


def keys(x: te.Tensor, *, unknown_first: bool = False) -> te.Tensor:
    """Return the keys of a tensor, one for both zeros; see ``key``."""
    return te.compute(
        x.shape,
        lambda *place: key(x[place], str(x.dtype), ties=True, unknown_first=unknown_first),
        "key",
    )


def numbers(made: te.Tensor, dtype: str) -> te.Tensor:
    """Return the numbers of keys; ``dtype`` is the element type that these were made from."""
    kind, magnitude = key_type(dtype), _magnitude(dtype)
    sign = tirx.const(int(kind[3:]) - 1, kind)

    def number(*place: Any) -> Any:
        turned = made[place]
        bits = turned ^ ((turned >> sign) & magnitude)
        return tirx.reinterpret(_wide(dtype), bits).astype(dtype)

    return te.compute(made.shape, number, "number")
