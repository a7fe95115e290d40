"""Matrix products; int8 is summed in int32, bfloat16 in float32, unless ``out_dtype`` is given."""

from __future__ import annotations

from tvm import te

from schedlang.tvm.operators.convolution import accumulator


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
    out_dtype = accumulator(dtype, out_dtype)
    left = te.placeholder((batch, n, k), dtype, "A")
    right = te.placeholder((batch, k, m), dtype, "B")
    r = te.reduce_axis((0, k), "k")
    product = te.compute(
        (batch, n, m),
        lambda b, i, j: te.sum(
            left[b, i, r].astype(out_dtype) * right[b, r, j].astype(out_dtype), axis=[r]
        ),
        name="C",
    )
    return [left, right, product]


def matmul(
    n: int = 128,
    m: int = 128,
    k: int = 128,
    *,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """Plain product C (n, m) = A (n, k) @ B (k, m)."""
    out_dtype = accumulator(dtype, out_dtype)
    left = te.placeholder((n, k), dtype, "A")
    right = te.placeholder((k, m), dtype, "B")
    r = te.reduce_axis((0, k), "k")
    product = te.compute(
        (n, m),
        lambda i, j: te.sum(left[i, r].astype(out_dtype) * right[r, j].astype(out_dtype), axis=[r]),
        name="C",
    )
    return [left, right, product]
