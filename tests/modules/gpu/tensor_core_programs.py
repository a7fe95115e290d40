"""Programs with matrix products for tensor cores."""

from __future__ import annotations

from tvm import te

import schedlang as sl


def fused_dense(
    n: int, m: int, k: int, dtype: str = "float16", out_dtype: str = "float32"
) -> sl.Workload:
    """relu(A (n, k) @ B (k, m) + bias (m,)): the program of MetaSchedule's Figure 10a."""
    left = te.placeholder((n, k), dtype, "A")
    right = te.placeholder((k, m), dtype, "B")
    bias = te.placeholder((m,), out_dtype, "bias")
    r = te.reduce_axis((0, k), "k")
    product = te.compute(
        (n, m),
        lambda i, j: te.sum(left[i, r].astype(out_dtype) * right[r, j].astype(out_dtype), axis=[r]),
        name="C",
    )
    biased = te.compute((n, m), lambda i, j: product[i, j] + bias[j], name="biased")
    relu = te.compute(
        (n, m), lambda i, j: te.max(biased[i, j], te.const(0, out_dtype)), name="relu"
    )
    return sl.workloads.from_te([left, right, bias, relu])
