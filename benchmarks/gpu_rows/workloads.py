"""Workloads of benchmarks that schedlang has no operator for."""

from __future__ import annotations

import math

import tvm.tirx as tirx
from tvm import te

import schedlang as sl


def fused_dense(
    rows: int, inner: int, columns: int, dtype: str = "float16", out_dtype: str | None = None
) -> sl.Workload:
    """gelu(X @ W + bias), the paper's fused-dense: ``dtype`` in and out, summed in float32.

    ``out_dtype`` is that of bias and result, where it is another one.
    """
    out_dtype = out_dtype or dtype
    x = te.placeholder((rows, inner), dtype, "X")
    weight = te.placeholder((inner, columns), dtype, "W")
    bias = te.placeholder((columns,), out_dtype, "bias")
    k = te.reduce_axis((0, inner), "k")
    dense = te.compute(
        (rows, columns),
        lambda i, j: te.sum(x[i, k].astype("float32") * weight[k, j].astype("float32"), axis=k),
        name="dense",
    )
    biased = te.compute(
        (rows, columns), lambda i, j: dense[i, j] + bias[j].astype("float32"), name="biased"
    )
    half = tirx.const(0.5, "float32")

    def gelu(i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
        value = biased[i, j]
        return half * value * (1 + te.erf(value * tirx.const(math.sqrt(0.5), "float32")))

    output = wide = te.compute((rows, columns), gelu, name="gelu")
    if out_dtype != "float32":
        output = te.compute(
            (rows, columns), lambda i, j: wide[i, j].astype(out_dtype), name="output"
        )
    return sl.workloads.from_te([x, weight, bias, output], name="fused_dense")


def layer_norm(rows: int, columns: int) -> sl.Workload:
    """(x - mean) / sqrt(variance + 1e-5) * scale + offset over the columns, in float32."""
    x = te.placeholder((rows, columns), "float32", "X")
    scale = te.placeholder((columns,), "float32", "scale")
    offset = te.placeholder((columns,), "float32", "offset")
    k, q = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "q")
    total = te.compute((rows,), lambda i: te.sum(x[i, k], axis=k), name="total")
    squares = te.compute((rows,), lambda i: te.sum(x[i, q] * x[i, q], axis=q), name="squares")
    part = tirx.const(1 / columns, "float32")

    def normalised(i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
        mean = total[i] * part
        variance = squares[i] * part - mean * mean
        deviation = te.rsqrt(variance + tirx.const(1e-5, "float32"))
        return (x[i, j] - mean) * deviation * scale[j] + offset[j]

    output = te.compute((rows, columns), normalised, name="output")
    return sl.workloads.from_te([x, scale, offset, output], name="layer_norm")
