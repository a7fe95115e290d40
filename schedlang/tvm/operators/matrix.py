"""Matrix products, attention scores, norm and softmax of MetaSchedule's appendix A.2.

int8 is summed in int32, bfloat16 in float32, unless ``out_dtype`` is given; norm and softmax of
bfloat16 are computed in float32 and rounded.
"""

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


def TBG(
    sequence: int = 128,
    heads: int = 12,
    dim: int = 64,
    *,
    batch: int = 1,
    dtype: str = "float32",
    out_dtype: str | None = None,
) -> list[te.Tensor]:
    """Attention scores: out[b, h, i, j] = sum over k of query[b, i, h, k] * value[b, j, h, k].

    Both operands are transposed to heads-first in their own stages, as in the paper.
    """
    shape = (batch, sequence, heads, dim)
    out_dtype, (query, value) = operands(dtype, out_dtype, query=shape, value=shape)
    query_t = te.compute(
        (batch, heads, sequence, dim), lambda b, h, s, d: query[b, s, h, d], name="query_transpose"
    )
    value_t = te.compute(
        (batch, heads, dim, sequence), lambda b, h, d, s: value[b, s, h, d], name="value_transpose"
    )
    (k,) = sum_axes(k=dim)
    output = te.compute(
        (batch, heads, sequence, sequence),
        lambda b, h, i, j: te.sum(
            query_t[b, h, i, k].astype(out_dtype) * value_t[b, h, k, j].astype(out_dtype), axis=[k]
        ),
        name="batch_matmul",
    )
    return [query, value, output]


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
