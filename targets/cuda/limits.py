"""The properties of a GPU, what a kernel may ask of it, and how many of its blocks fit.

``check`` and ``require`` find the reasons to reject a kernel before it runs. ``occupancy`` says how
many blocks a multiprocessor holds at a time, and what limits them, as CUDA's occupancy calculator
does: registers are given to warps in units of 256, and four warps share a register file; shared
memory is given to blocks in units of 128 bytes (256 before sm_80).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schedlang.measurement import Status
from schedlang.measurement.measurement import rejection_message
from schedlang.targets.cuda.attributes import DEVICE, resolve
from schedlang.targets.cuda.nvcc import Resources
from schedlang.targets.errors import Fault
from schedlang.targets.target import Target
from schedlang.tvm.codegen import cuda
from schedlang.tvm.codegen.cuda_kernels import CUDAKernel

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget


# -- The properties of an NVIDIA GPU that programs are scheduled for ------------------------------


@dataclass(frozen=True, slots=True, init=False)
class CUDAMachine(Target):
    """An NVIDIA GPU: what its architecture allows, and what the model has of it.

    The name ``"cuda"`` is a GPU of this machine, by default the first one; with ``arch`` it is any
    GPU of that architecture, here or elsewhere, and no GPU is needed. Other names are
    architectures, such as ``"cuda/sm_80"``, and models, such as ``"nvidia/h100"``. Values that are
    not given are looked up; ``describe()`` shows their sources. Sizes of caches, bandwidth and
    peaks do not take part in equality.

    Attributes
    ----------
    name: ``"cuda"``, or one of ``schedlang.targets.cuda.attributes.NAMES``.
    kind: ``"cuda"``.
    arch: what code is generated for: ``"sm_90"``, or ``"sm_90a"`` with what only 9.0 has (wgmma).
    compute_capability: major and minor number: ``(9, 0)``.
    device: number of the GPU of this machine that was read; None where none was.
    model: the GPU's model: ``"h100"``; empty if only the architecture is known.
    sms: number of multiprocessors (SMs).
    warp_size: threads of a warp.
    max_threads_per_block, max_threads_per_sm, max_blocks_per_sm: limits of threads and blocks.
    registers_per_block, registers_per_sm, max_registers_per_thread: 32-bit registers.
    shared_bytes: shared memory that a block may declare statically, in bytes.
    shared_bytes_optin: shared memory of a block, in bytes, where it is dynamic (``shared.dyn``).
    shared_bytes_per_sm: shared memory of a multiprocessor in bytes.
    reserved_shared_bytes: bytes of it that the system takes for each resident block.
    l2_bytes: size of the second-level cache in bytes.
    memory_bytes_per_second: bandwidth of the device's memory.
    peak_flops: float32 operations a second outside the matrix units.
    peak_matrix_flops: float16 operations a second of the matrix units, dense.
    sources: the source of each value.

    Raises ``TargetError`` for an unknown name or architecture, for a GPU that is not here or is
    another one than named, and for a number that is not positive.
    """

    name: str
    arch: str
    compute_capability: tuple[int, int] = field(init=False, repr=False)
    device: int | None
    model: str = field(init=False, repr=False)
    sms: int
    warp_size: int = field(init=False, repr=False)
    max_threads_per_block: int = field(init=False, repr=False)
    max_threads_per_sm: int = field(init=False, repr=False)
    max_blocks_per_sm: int = field(init=False, repr=False)
    registers_per_block: int = field(init=False, repr=False)
    registers_per_sm: int = field(init=False, repr=False)
    max_registers_per_thread: int = field(init=False, repr=False)
    shared_bytes: int = field(init=False, repr=False)
    shared_bytes_optin: int = field(init=False, repr=False)
    shared_bytes_per_sm: int = field(init=False, repr=False)
    reserved_shared_bytes: int = field(init=False, repr=False)
    l2_bytes: int = field(compare=False, repr=False)
    memory_bytes_per_second: float = field(compare=False, repr=False)
    peak_flops: float = field(compare=False, repr=False)
    peak_matrix_flops: float = field(compare=False, repr=False)
    kind: str = field(init=False, repr=False)
    sources: Mapping[str, str] = field(init=False, compare=False, repr=False)

    def __init__(
        self,
        name: str = DEVICE,
        arch: str | None = None,
        device: int | None = None,
        *,
        sms: int | None = None,
        l2_bytes: int | None = None,
        memory_bytes_per_second: float | None = None,
        peak_flops: float | None = None,
        peak_matrix_flops: float | None = None,
    ) -> None:
        numbers = {
            "sms": sms,
            "l2_bytes": l2_bytes,
            "memory_bytes_per_second": memory_bytes_per_second,
            "peak_flops": peak_flops,
            "peak_matrix_flops": peak_matrix_flops,
        }
        given = {key: number for key, number in numbers.items() if number is not None}
        for key, value in resolve(name, arch, device, given).items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "kind", "cuda")

    @property
    def key(self) -> str:
        """Text that is equal for machines whose records can be exchanged; the same in every run.

        ``"cuda/sm_90a/h100/sms=132"``, and ``"cuda/sm_80"`` where only the architecture is known.
        """
        parts = [self.kind, self.arch, self.model]
        if self.model or self.sources["sms"] == "given":
            parts.append(f"sms={self.sms}")
        return "/".join(part for part in parts if part)

    def peak_flops_of(self, bits: int) -> float:
        """Return an upper bound on operations a second on elements of ``bits`` bits.

        Matrix units count: they take elements of 16 bits at ``peak_matrix_flops``, of half the
        width at twice that, and float32 inputs, as TF32, at half of it. It is infinite where
        ``peak_flops`` is.
        """
        if math.isinf(self.peak_flops):
            return math.inf
        return max(self.peak_flops, self.peak_matrix_flops * 16 / max(bits, 4))

    def tvm_target(self) -> CompilerTarget:
        """Return TVM's target for this GPU.

        Its limit of shared memory is the static one; for dynamic shared memory TVM asks the driver
        at launch, and ``schedlang.targets.cuda.limits`` checks it.
        """
        return cuda.cuda_target(
            self.arch,
            max_threads_per_block=self.max_threads_per_block,
            shared_bytes=self.shared_bytes,
            warp_size=self.warp_size,
            registers_per_block=self.registers_per_block,
            l2_bytes=self.l2_bytes,
            model=self.model,
        )


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
