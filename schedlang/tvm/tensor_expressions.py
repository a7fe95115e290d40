"""What the operations of tensor expressions are, before a program is made of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from tvm import te, tirx

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
