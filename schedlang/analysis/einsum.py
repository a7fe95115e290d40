"""Analyses of matrix products and similar blocks, for modules; no call is recorded."""

from __future__ import annotations

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.tvm.analysis import einsum as _tvm
from schedlang.tvm.analysis.einsum import Einsum

__all__ = ["Einsum", "find_einsum"]


def find_einsum(sch: Schedule, block: BlockRV) -> Einsum | None:
    """The sum of products that a block computes; None when it computes something else."""
    return _tvm.einsum_of(sch.raw, sch.raw_value(sch.own(block)))
