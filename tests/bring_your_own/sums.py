"""Sums, as most layers of networks have them."""

from __future__ import annotations

from tvm import te


def sum_over(shape, extent, value, name):
    """Sum ``value(*indices, k)`` over k below ``extent``: a tensor of ``shape``."""
    k = te.reduce_axis((0, extent), name=f"k_{name}")
    return te.compute(shape, lambda *i: te.sum(value(*i, k), axis=k), name=name)
