"""Templates that tests call."""

from __future__ import annotations

from typing import Any

from tvm import te

import schedlang as sl


def dense(rows, width=16):  # type: ignore[no-untyped-def]
    """Multiply rows by a square matrix."""
    return sl.workloads.matmul(rows, width, width)


def add(n: int, *, dtype: str = "float32") -> list[Any]:
    """Add two vectors."""
    a, b = (te.placeholder((n,), dtype, name) for name in "AB")
    return [a, b, te.compute((n,), lambda i: a[i] + b[i], name="C")]


def halves(n: int) -> list[Any]:
    """Split a vector of 2 n + 1 elements, the outputs on both sides of the input."""
    x = te.placeholder((2 * n + 1,), name="X")
    low = te.compute((n,), lambda i: x[i], name="low")
    high = te.compute((n + 1,), lambda i: x[i + n], name="high")
    return [low, x, high]


def conv(h, w, ci, co, k, stride, pad):  # type: ignore[no-untyped-def]
    """A convolution, whose shapes tell neither its stride nor its padding."""
    return sl.workloads.conv2d(h, w, ci, co, k, stride, pad)
