"""Analyses of matrix products and similar blocks, for modules; no call is recorded."""

from __future__ import annotations

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.tvm.analysis import products as _tvm
from schedlang.tvm.analysis.products import Einsum, MatrixProduct

__all__ = ["Einsum", "MatrixProduct", "find_einsum", "matrix_product"]


def find_einsum(sch: Schedule, block: BlockRV) -> Einsum | None:
    """The sum of products that a block computes; None when it computes something else."""
    return _tvm.einsum_of(sch.raw, sch.raw_value(sch.own(block)))


def matrix_product(sch: Schedule, block: BlockRV) -> MatrixProduct | str:
    """The matrix product that a block computes after a change of indices; else why it is none."""
    return _tvm.matrix_product_of(sch.raw, sch.raw_value(sch.own(block)))
