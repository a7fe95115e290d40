"""Matrix products; int8 is summed in int32, bfloat16 in float32, unless ``out_dtype`` is given."""

from __future__ import annotations

from typing import Any

from tvm import te

from schedlang.tvm.operators.parts import operands, sum_axes


def GMM(
    n: int = 128,
    m: int = 128,
    k: int = 128,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """Batched product C (batch, n, m) = A (batch, n, k) @ B (batch, k, m): the paper's GMM."""
    return _product((batch,), n, m, k, dtype, out_dtype)


def matmul(
    n: int = 128,
    m: int = 128,
    k: int = 128,
    *,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """Plain product C (n, m) = A (n, k) @ B (k, m)."""
    return _product((), n, m, k, dtype, out_dtype)


def _product(
    batch: tuple[int, ...], n: int, m: int, k: int, dtype: str, out_dtype: str | None
) -> list[te.Tensor]:
    out_dtype, (left, right) = operands(dtype, out_dtype, A=(*batch, n, k), B=(*batch, k, m))
    (r,) = sum_axes(k=k)

    def multiply_and_sum(*position: Any) -> Any:
        *b, i, j = position
        x, y = left[(*b, i, r)], right[(*b, r, j)]
        return te.sum(x.astype(out_dtype) * y.astype(out_dtype), axis=[r])

    names = ["b", "i", "j"][-len(left.shape) :]
    product = te.compute((*batch, n, m), multiply_and_sum, name="C", varargs_names=names)
    return [left, right, product]
