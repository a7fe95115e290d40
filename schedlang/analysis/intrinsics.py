"""What a block computes, for modules: products, and tensor intrinsics with their targets.

Tensor intrinsics can be added here; no call is recorded.
"""

from __future__ import annotations

from functools import cache

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.tvm.analysis import accesses as _accesses, patterns as _products
from schedlang.tvm.analysis.accesses import Access
from schedlang.tvm.analysis.patterns import Einsum, MatrixProduct
from schedlang.tvm.codegen import cpu_features, host_cpu
from schedlang.tvm.schedule.intrinsics import define_family, define_intrinsic, intrinsic_axes

__all__ = [
    "Access",
    "Einsum",
    "MatrixProduct",
    "block_axes",
    "block_reads",
    "block_writes",
    "define_family",
    "define_intrinsic",
    "find_einsum",
    "host_features",
    "intrinsic_axes",
    "matrix_product",
]


@cache
def host_features() -> frozenset[str]:
    """Return the CPU features of this machine by LLVM's names, such as ``"avx512vnni"``."""
    return cpu_features(host_cpu())


def block_axes(sch: Schedule, block: BlockRV) -> tuple[tuple[str, int], ...]:
    """The block's variables in order, each ``("S" or "R", extent)``, as ``intrinsic_axes`` says."""
    return _accesses.block_axes(sch.raw, sch.raw_value(sch.own(block)))


def block_reads(sch: Schedule, block: BlockRV) -> tuple[Access, ...]:
    """How the block indexes each buffer that it reads."""
    return _accesses.accesses(sch.raw, sch.raw_value(sch.own(block)), "read")


def block_writes(sch: Schedule, block: BlockRV) -> tuple[Access, ...]:
    """How the block indexes each buffer that it writes."""
    return _accesses.accesses(sch.raw, sch.raw_value(sch.own(block)), "write")


# -- Matrix products and similar blocks -----------------------------------------------------------


def find_einsum(sch: Schedule, block: BlockRV) -> Einsum | None:
    """The sum of products that a block computes; None when it computes something else."""
    return _products.einsum_of(sch.raw, sch.raw_value(sch.own(block)))


def matrix_product(sch: Schedule, block: BlockRV) -> MatrixProduct | str:
    """The matrix product that a block computes after a change of indices; else why it is none."""
    return _products.matrix_product_of(sch.raw, sch.raw_value(sch.own(block)))
