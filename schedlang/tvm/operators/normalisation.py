"""Norm and softmax of MetaSchedule's appendix A.2; bfloat16 is computed in float32 and rounded."""

from __future__ import annotations

from tvm import te

from schedlang.tvm.operators.parts import operands, sum_axes


def NRM(m: int = 256, n: int = 256, *, batch: int = 1, dtype: str = "float32") -> list[te.Tensor]:
    """Frobenius norm of each matrix of A (batch, m, n): out (batch,)."""
    wide, (a,) = operands(dtype, None, A=(batch, m, n))
    i, j = sum_axes(i=m, j=n)
    squares = te.compute(
        (batch,),
        lambda b: te.sum(a[b, i, j].astype(wide) * a[b, i, j].astype(wide), axis=[i, j]),
        name="squares",
    )
    norm = te.compute((batch,), lambda b: te.sqrt(squares[b]).astype(dtype), name="norm")
    return [a, norm]


def SFM(m: int = 256, n: int = 256, *, dtype: str = "float32") -> list[te.Tensor]:
    """Softmax over each row of A (m, n), in four stages: maximum, exponent, sum, quotient."""
    wide, (a,) = operands(dtype, None, A=(m, n))
    (k,) = sum_axes(k=n)
    top = te.compute((m,), lambda i: te.max(a[i, k].astype(wide), axis=k), name="row_max")
    exponent = te.compute(
        (m, n), lambda i, j: te.exp(a[i, j].astype(wide) - top[i]), name="exponent"
    )
    (r,) = sum_axes(k=n)
    total = te.compute((m,), lambda i: te.sum(exponent[i, r], axis=r), name="row_sum")
    # The attribute names the reduced axis, as in TVM's own softmax.
    softmax = te.compute(
        (m, n),
        lambda i, j: (exponent[i, j] / total[i]).astype(dtype),
        name="softmax",
        attrs={"axis": 1},
    )
    return [a, softmax]
