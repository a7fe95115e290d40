"""Tensor expressions: what their operations are, and the standard operators without convolutions.

The first part looks at tensor expressions of users before a program is made of them. Then follow
products, attention scores, norm and softmax of MetaSchedule's appendix A.2, and products with
weights of 4 or 8 bits. ``schedlang.workloads`` makes workloads of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from tvm import te, tirx

from schedlang.errors import WorkloadError

# -- What the operations of tensor expressions are ------------------------------------------------

TensorExpression: TypeAlias = te.Tensor
"""A tensor that a formula defines, or that is given: what ``te.compute`` or ``te.placeholder``
returned."""


def operations(tensors: Sequence[te.Tensor]) -> list[Any]:
    """Return all operations that ``tensors`` come from, each once."""
    pending, seen = [tensor.op for tensor in tensors], dict[Any, None]()
    while pending:
        op = pending.pop()
        if op not in seen:
            seen[op] = None
            pending += [tensor.op for tensor in op.input_tensors]
    return list(seen)


def missing_placeholders(tensors: Sequence[te.Tensor]) -> list[str]:
    """Return the names of placeholders that ``tensors`` depend on but do not list."""
    listed = {tensor.op for tensor in tensors}
    return sorted(
        str(op.name)
        for op in operations(tensors)
        if isinstance(op, te.PlaceholderOp) and op not in listed
    )


def scans(tensors: Sequence[te.Tensor]) -> list[str]:
    """Return the names of the operations that ``te.scan`` made."""
    return sorted(str(op.name) for op in operations(tensors) if isinstance(op, te.ScanOp))


def externs(tensors: Sequence[te.Tensor]) -> list[str]:
    """Return the names of the operations that ``te.extern`` made."""
    return sorted(str(op.name) for op in operations(tensors) if isinstance(op, te.ExternOp))


def symbolic_extents(tensors: Sequence[te.Tensor]) -> Iterator[tuple[str, int, str, bool]]:
    """Yield the extents that are no numbers, those of placeholders first.

    Each with the name of the tensor, its dimension, the extent as text, and whether the tensor is a
    placeholder.
    """
    found = sorted(operations(tensors), key=lambda op: not isinstance(op, te.PlaceholderOp))
    for op in found:
        for axis, extent in enumerate(op.output(0).shape):
            if not isinstance(extent, int | tirx.IntImm):
                yield str(op.name), axis, str(extent), isinstance(op, te.PlaceholderOp)


# -- Matrix products, attention scores, norm and softmax ------------------------------------------
#
# int8 is summed in int32, bfloat16 in float32, unless ``out_dtype`` is given; norm and softmax of
# bfloat16 are computed in float32 and rounded.


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


# -- Products of a matrix and of weights of 4 or 8 bits, unpacked inside --------------------------

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


# -- Operands, axes of sums, and the type of sums -------------------------------------------------


def operands(
    dtype: str, out_dtype: str | None, **shapes: tuple[int, ...]
) -> tuple[str, list[te.Tensor]]:
    """Return the type in which products are summed, and a placeholder for each named shape."""
    wide = accumulator(dtype, out_dtype)
    return wide, [te.placeholder(shape, dtype, name) for name, shape in shapes.items()]


def sum_axes(**extents: int) -> list[te.IterVar]:
    """Return an axis to sum over for each named extent."""
    return [te.reduce_axis((0, extent), name) for name, extent in extents.items()]


def accumulator(dtype: str, out_dtype: str | None) -> str:
    """Return the dtype of sums: ``out_dtype`` if given.

    Otherwise int32 for integers, float32 for bfloat16, and ``dtype`` for other types.
    """
    natural = "float32" if dtype == "bfloat16" else dtype
    chosen = out_dtype or ("int32" if dtype.startswith("int") else natural)
    if chosen.startswith("int") != dtype.startswith("int"):
        raise WorkloadError(
            f"dtype={dtype!r} with out_dtype={chosen!r}: sum integers in integers, floats in floats"
        )
    return chosen
