"""The properties of an NVIDIA GPU that programs are scheduled for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from schedlang.targets.cuda.attributes import DEVICE, resolve
from schedlang.targets.target import Target
from schedlang.tvm.codegen import cuda

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget


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
