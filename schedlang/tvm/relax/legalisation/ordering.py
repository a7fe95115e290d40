"""Integers in the order of floating-point numbers, for which NaN is larger than all others.

The code generator has an instruction for the maximum of integers, and TVM's schedule primitives
know the reduction: a reduction of these keys is as fast as one of numbers that loses NaN.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

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
