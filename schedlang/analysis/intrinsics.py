"""Tensor intrinsics, for modules: their computation, their targets, and adding one."""

from __future__ import annotations

from functools import cache

from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.tvm.analysis import accesses as _accesses
from schedlang.tvm.analysis.accesses import Access
from schedlang.tvm.codegen import cpu_features, host_cpu
from schedlang.tvm.schedule.intrinsics import define_family, define_intrinsic, intrinsic_axes

__all__ = [
    "Access",
    "block_axes",
    "block_reads",
    "block_writes",
    "define_family",
    "define_intrinsic",
    "host_features",
    "intrinsic_axes",
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
