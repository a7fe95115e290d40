"""Products of a matrix and of weights of 4 or 8 bits, which are unpacked inside."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from schedlang.errors import WorkloadError
from schedlang.tvm.operators.parts import accumulator, sum_axes

WEIGHTS = ("W", "S", "Z")
"""The arguments that are known ahead of all calls."""
_BYTE = 8
_MIDDLE = {4: 8}
"""What stands for 0 where there are no zero points; 8-bit weights have signs."""


def quantized_matmul(
    n: int = 1,
    m: int = 1024,
    k: int = 1024,
    *,
    bits: int = 4,
    group: int | None = None,
    zero_points: bool = False,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """C (n, m) = A (n, k) @ w.T, the weights w (m, k) stored in 4 or 8 bits.

    ``w[j, k] = (W[j, k] - Z[j, k // group]) * S[j, k // group]``; ``group`` divides k, and is k by
    default: a scale for each output channel. W (m, k * bits / 8) is uint8; of two 4-bit weights in
    a byte, the first is in the lower half. S (m, k / group) has the type of A. With
    ``zero_points`` Z (m, k / group) is uint8; without them it is 8 for 4 bits, and for 8 bits W is
    int8 and Z is 0. W, S and Z are weights: they may be packed ahead of all calls.
    """
    group = k if group is None else group
    if bits not in (4, 8):
        raise WorkloadError(f"quantized_matmul: bits must be 4 or 8, not {bits}")
    if k % group:
        raise WorkloadError(f"quantized_matmul: group must divide k = {k}, not be {group}")
    if k % (_BYTE // bits):
        raise WorkloadError(f"quantized_matmul: two weights are a byte, so k is even, not {k}")
    kind = "uint8" if zero_points or bits < _BYTE else "int8"
    shape = (m, k // group)
    tensors = [
        te.placeholder((n, k), dtype, "A"),
        te.placeholder((m, k * bits // _BYTE), kind, "W"),
        te.placeholder(shape, dtype, "S"),
        *([te.placeholder(shape, "uint8", "Z")] if zero_points else []),
    ]
    return [*tensors, product(*tensors, bits=bits, wide=accumulator(dtype, out_dtype))]


def product(
    a: te.Tensor, w: te.Tensor, s: te.Tensor, z: te.Tensor | None = None, *, bits: int, wide: str
) -> te.Tensor:
    """The product of A (..., k) and of weights as ``quantized_matmul`` has them, summed in wide."""
    *rows, steps = a.shape
    (r,) = sum_axes(k=steps)
    group = int(steps) // int(s.shape[1])
    one = int(s.shape[1]) == 1

    def weight(j: Any) -> Any:
        if bits == _BYTE:
            stored = w[j, r].astype("int32")
        else:
            byte = w[j, r // 2].astype("int32")
            stored = tirx.Select(r % 2 < 1, byte & 15, byte >> bits)
        at = 0 if one else r // group
        zero = _MIDDLE.get(bits, 0) if z is None else z[j, at].astype("int32")
        return (stored - zero).astype(wide) * s[j, at].astype(wide)

    def multiply_and_sum(*position: Any) -> Any:
        *i, j = position
        return te.sum(a[(*i, r)].astype(wide) * weight(j), axis=[r])

    names = ["b", "i", "j"][-len(a.shape) :] if len(a.shape) <= 3 else None  # noqa: PLR2004
    return te.compute((*rows, w.shape[0]), multiply_and_sum, name="C", varargs_names=names)
