"""What a kernel may ask of a GPU, what it asks, and how many of its blocks fit.

``check`` and ``require`` find the reasons to reject a kernel before it runs. ``occupancy`` says how
many blocks a multiprocessor holds at a time, and what limits them, as CUDA's occupancy calculator
does: registers are given to warps in units of 256, and four warps share a register file; shared
memory is given to blocks in units of 128 bytes (256 before sm_80).
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from schedlang.measurement import Status
from schedlang.measurement.measurement import rejection_message
from schedlang.targets.cuda.cuda_machine import CUDAMachine
from schedlang.targets.cuda.nvcc import Resources
from schedlang.targets.worker.fault import Fault
from schedlang.tvm.codegen.cuda_kernels import CUDAKernel

# -- Reasons to reject a kernel -------------------------------------------------------------------

# CUDA programming guide, "Technical Specifications per Compute Capability".
_GRID = (2**31 - 1, 65535, 65535)
_BLOCK = (1024, 1024, 64)
_LOCAL_BYTES = 512 << 10
_STATIC, _DYNAMIC = "shared", "shared.dyn"
_REGISTERS_AT_ONCE = 256


class Reason(enum.StrEnum):
    """Why a kernel cannot run, as a word to count by."""

    THREADS = "threads"
    GRID = "grid"
    SHARED_MEMORY = "shared memory"
    LOCAL_MEMORY = "local memory"
    ALIGNMENT = "alignment"
    REGISTERS = "registers"


@dataclass(frozen=True)
class Violation:
    """A limit that a kernel exceeds.

    Attributes
    ----------
    reason: which limit.
    kernel: the kernel's name.
    value, limit: what it asks for, and what there is: threads, blocks, bytes or registers.
    message: one line that says so, and what to change.
    subject: the buffer or thread axis that it is about; empty if it is the whole kernel.
    """

    reason: Reason
    kernel: str
    value: int
    limit: int
    message: str
    subject: str = ""


@dataclass(frozen=True)
class Limits:
    """Limits of a GPU, as ``CUDAMachine`` has them, in a form that other processes can be sent."""

    max_threads_per_block: int
    shared_bytes: int
    shared_bytes_optin: int
    registers_per_block: int
    warp_size: int

    @classmethod
    def of(cls, target: CUDAMachine) -> Limits:
        """Return those of ``target``."""
        return cls(*(getattr(target, name) for name in cls.__dataclass_fields__))


def check(
    kernels: Sequence[CUDAKernel], limits: Limits, resources: Mapping[str, Resources] | None = None
) -> list[Violation]:
    """Return what is beyond the limits; empty if the kernels can be launched.

    ``resources`` is what the compiler says of each kernel, by name, where it was asked.
    """
    found = []
    for kernel in kernels:
        found += [*_threads(kernel, limits), *_grid(kernel), *_shared(kernel, limits)]
        found += [*_local(kernel), *_alignment(kernel)]
        if resources is not None and kernel.name in resources:
            found += _registers(kernel, limits, resources[kernel.name])
    return found


def require(
    kernels: Sequence[CUDAKernel], limits: Limits, resources: Mapping[str, Resources] | None = None
) -> None:
    """Raise ``Fault`` with ``Status.REJECTED`` for the first limit that a kernel exceeds."""
    for violation in check(kernels, limits, resources):
        raise Fault(Status.REJECTED, rejection_message(violation.reason, violation.message))


def _threads(kernel: CUDAKernel, limits: Limits) -> Iterator[Violation]:
    for axis, extent, most in zip("xyz", kernel.block, _BLOCK, strict=True):
        if extent is not None and extent > most:
            yield Violation(
                Reason.THREADS,
                kernel.name,
                extent,
                most,
                f"{kernel.name} binds a loop of {extent} iterations to threadIdx.{axis}, which "
                f"has at most {most}",
                f"threadIdx.{axis}",
            )
    fits = all(
        extent is None or extent <= most for extent, most in zip(kernel.block, _BLOCK, strict=True)
    )
    if fits and kernel.threads > limits.max_threads_per_block:
        shape = " x ".join(str(extent) for extent in kernel.block if extent not in (None, 1))
        yield Violation(
            Reason.THREADS,
            kernel.name,
            kernel.threads,
            limits.max_threads_per_block,
            f"{kernel.name} has blocks of {shape} threads, and a block has at most "
            f"{limits.max_threads_per_block}: bind shorter loops to threadIdx",
        )


def _grid(kernel: CUDAKernel) -> Iterator[Violation]:
    for axis, extent, most in zip("xyz", kernel.grid, _GRID, strict=True):
        if extent is not None and extent > most:
            yield Violation(
                Reason.GRID,
                kernel.name,
                extent,
                most,
                f"{kernel.name} binds a loop of {extent} iterations to blockIdx.{axis}, which has "
                f"at most {most}: bind it to blockIdx.x, or give blocks more work",
                f"blockIdx.{axis}",
            )


def _shared(kernel: CUDAKernel, limits: Limits) -> Iterator[Violation]:
    static, dynamic = kernel.bytes_in(_STATIC), kernel.bytes_in(_DYNAMIC)
    parts = ", ".join(
        f"{one.name} {one.bytes}"
        for one in kernel.allocations
        if one.scope in (_STATIC, _DYNAMIC) and one.bytes
    )
    largest = max(
        (one for one in kernel.allocations if one.scope in (_STATIC, _DYNAMIC)),
        key=lambda one: one.bytes or 0,
        default=None,
    )
    subject = largest.name if largest else ""
    what = f"{kernel.name} has {static + dynamic} bytes of shared memory ({parts})"
    if static + dynamic > limits.shared_bytes_optin:
        yield Violation(
            Reason.SHARED_MEMORY,
            kernel.name,
            static + dynamic,
            limits.shared_bytes_optin,
            f"{what}, and a block has at most {limits.shared_bytes_optin}: make the tiles that it "
            "holds smaller, or the pipeline shorter",
            subject,
        )
    elif static > limits.shared_bytes:
        yield Violation(
            Reason.SHARED_MEMORY,
            kernel.name,
            static,
            limits.shared_bytes,
            f"{what}, of which at most {limits.shared_bytes} can be static: take the scope "
            "shared.dyn, or make the tiles that it holds smaller",
            subject,
        )


def _local(kernel: CUDAKernel) -> Iterator[Violation]:
    local = kernel.bytes_in("local")
    if local > _LOCAL_BYTES:
        yield Violation(
            Reason.LOCAL_MEMORY,
            kernel.name,
            local,
            _LOCAL_BYTES,
            f"{kernel.name} has {local} bytes of local memory a thread, and there are "
            f"{_LOCAL_BYTES}: give a thread less work",
        )


def _alignment(kernel: CUDAKernel) -> Iterator[Violation]:
    for access in kernel.misaligned:
        yield Violation(
            Reason.ALIGNMENT,
            kernel.name,
            access.offset,
            access.bytes,
            f"{kernel.name} accesses {access.bytes} bytes of {access.buffer} at once at byte "
            f"{access.offset}, which is no multiple of {access.bytes}: vectorise less",
            access.buffer,
        )


def _registers(kernel: CUDAKernel, limits: Limits, resources: Resources) -> Iterator[Violation]:
    warps = -(-kernel.threads // limits.warp_size)
    used = warps * registers_of_warp(resources.registers, limits.warp_size)
    if used > limits.registers_per_block:
        yield Violation(
            Reason.REGISTERS,
            kernel.name,
            used,
            limits.registers_per_block,
            f"{kernel.name} takes {resources.registers} registers for each of {kernel.threads} "
            f"threads, and a block has {limits.registers_per_block}: give blocks fewer threads",
        )


def registers_of_warp(registers: int, warp_size: int) -> int:
    """Return how many registers a warp takes, if a thread takes ``registers``."""
    unit = _REGISTERS_AT_ONCE
    return -(-registers * warp_size // unit) * unit


# -- Occupancy: how many blocks a multiprocessor holds --------------------------------------------

_FILES = 4
_SHARED_UNIT, _OLD_SHARED_UNIT = 128, 256


@dataclass(frozen=True)
class Occupancy:
    """How full a multiprocessor is.

    Attributes
    ----------
    blocks: blocks that are resident on one multiprocessor at a time; 0 if none fits.
    warps: share of its warps that they use, from 0 to 1.
    limited_by: ``"threads"``, ``"blocks"``, ``"registers"`` or ``"shared memory"``.
    """

    blocks: int
    warps: float
    limited_by: str


def occupancy(
    target: CUDAMachine, *, threads: int, registers: int = 0, shared_bytes: int = 0
) -> Occupancy:
    """Return the occupancy of a kernel.

    Parameters
    ----------
    threads: of a block.
    registers: of a thread; 0 if that is not known.
    shared_bytes: of a block, static and dynamic together.
    """
    warps = -(-threads // target.warp_size)
    most_warps = target.max_threads_per_sm // target.warp_size
    limits = {"threads": most_warps // warps, "blocks": target.max_blocks_per_sm}
    if registers:
        of_file = target.registers_per_sm // _FILES
        of_warp = registers_of_warp(registers, target.warp_size)
        limits["registers"] = of_file // of_warp * _FILES // warps
    if shared_bytes:
        unit = _SHARED_UNIT if target.compute_capability >= (8, 0) else _OLD_SHARED_UNIT
        taken = -(-(shared_bytes + target.reserved_shared_bytes) // unit) * unit
        limits["shared memory"] = target.shared_bytes_per_sm // taken
    limited_by = min(limits, key=lambda name: limits[name])
    blocks = limits[limited_by]
    return Occupancy(blocks, blocks * warps / most_warps, limited_by)
