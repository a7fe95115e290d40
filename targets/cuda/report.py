"""Check a program for a GPU that is not here: its limits, its registers and its occupancy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError
from schedlang.language.schedule import Schedule
from schedlang.targets.cuda import limits, nvcc
from schedlang.targets.cuda.limits import CUDAMachine, Limits, Occupancy, Violation, occupancy
from schedlang.targets.cuda.nvcc import CompileError, Resources
from schedlang.targets.errors import describe
from schedlang.targets.target import as_target
from schedlang.tvm.codegen.cuda import CUDAGenerator
from schedlang.tvm.codegen.cuda_kernels import CUDAKernel

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

_SHARED = ("shared", "shared.dyn")


@dataclass(frozen=True)
class KernelReport:
    """What a kernel takes of a GPU.

    Attributes
    ----------
    kernel: its launch and its memory.
    shared_bytes: shared memory of a block, static and dynamic.
    resources: registers and spills; None where there is no nvcc, or it refuses the code.
    occupancy: how full a multiprocessor is; without ``resources``, as far as threads and shared
        memory tell.
    """

    kernel: CUDAKernel
    shared_bytes: int
    resources: Resources | None
    occupancy: Occupancy

    def __str__(self) -> str:
        """Write it in one line."""
        kernel, used = self.kernel, self.resources
        grid, block = (
            " x ".join("?" if extent is None else str(extent) for extent in extents)
            for extents in (_trimmed(kernel.grid), _trimmed(kernel.block))
        )
        parts = [f"{kernel.name}: {grid} blocks of {block} threads"]
        if used is not None:
            parts.append(f"{used.registers} registers")
            spilled = used.spill_store_bytes + used.spill_load_bytes
            parts.append(f"{spilled} bytes spilled" if spilled else "no spills")
        parts.append(f"{self.shared_bytes} bytes of shared memory")
        parts.append(
            f"{self.occupancy.blocks} blocks a multiprocessor ({self.occupancy.warps:.0%} of its "
            f"warps, limited by {self.occupancy.limited_by})"
        )
        return ", ".join(parts)


@dataclass(frozen=True)
class Report:
    """What a program takes of a GPU, and why it cannot run there.

    Attributes
    ----------
    target: the GPU's key.
    kernels: by name.
    violations: limits that it exceeds, with their values.
    errors: why it does not compile; one line each.
    source: the generated CUDA C++.
    """

    target: str
    kernels: tuple[KernelReport, ...]
    violations: tuple[Violation, ...]
    errors: tuple[str, ...]
    source: str

    @property
    def ok(self) -> bool:
        """Whether it can run, as far as is known without a GPU."""
        return not self.violations and not self.errors

    @property
    def problems(self) -> tuple[str, ...]:
        """Why it cannot run; one line each."""
        broken = (f"{one.reason}: {one.message}" for one in self.violations)
        return (*self.errors, *broken)

    def __str__(self) -> str:
        """Write a line for each kernel and each problem."""
        lines = [self.target, *(f"  {one}" for one in self.kernels)]
        lines += [f"  problem: {one}" for one in self.problems]
        if all(one.resources is None for one in self.kernels) and nvcc.find() is None:
            lines.append("  registers and spills are not known: there is no nvcc")
        return "\n".join(lines)


def check(program: Schedule | TensorProgram | Any, target: CUDAMachine | str) -> Report:
    """Compile a program for a GPU, which need not be here, and say what it takes and exceeds.

    Registers and spills are known where NVIDIA's compiler, ``nvcc``, is installed. A program that
    does not compile has its reason in ``Report.errors``; nothing runs.

    Parameters
    ----------
    program: a schedule, or anything else with a program in ``mod``, such as a workload; or one of
        TVM's modules.
    target: a GPU: ``"h100"``, ``sl.Target("cuda", arch="sm_90")``.

    Raises ``TargetError`` for a target that is no GPU and for a program that is scheduled for a
    CPU, and TypeError for what is no program.
    """
    gpu = as_target(target)
    if not isinstance(gpu, CUDAMachine):
        raise TargetError(
            f"target {gpu.key!r} is of kind {gpu.kind!r}, and this checks programs for GPUs: give "
            'one, such as "h100" or "sm_90"'
        )
    mod = getattr(program, "mod", program)
    if not hasattr(mod, "functions"):
        raise TypeError(
            f"program={program!r} is no program: give a schedule, a workload or an IRModule"
        )
    try:
        lowered = CUDAGenerator(gpu.tvm_target()).lower(mod)
        kernels = lowered.kernels
    except TargetError:
        raise
    except Exception as error:
        return Report(gpu.key, (), (), (f"TVM does not lower it: {describe(error)}",), "")
    errors, source, resources = [], "", dict[str, Resources]()
    known = Limits.of(gpu)
    try:
        source = lowered.source()
    except Exception as error:
        errors.append(f"TVM generates no code: {describe(error)}")
    if source and nvcc.find() is not None:
        try:
            resources = dict(nvcc.compile_cubin(source, gpu.arch).resources)
        except CompileError as error:
            # What is too large for the assembler too is told once, in our words.
            if not limits.check(kernels, known):
                errors.append(str(error))
    return Report(
        gpu.key,
        tuple(_kernel(kernel, resources, gpu) for kernel in kernels),
        tuple(limits.check(kernels, known, resources)),
        tuple(errors),
        source,
    )


def _kernel(
    kernel: CUDAKernel, resources: Mapping[str, Resources], target: CUDAMachine
) -> KernelReport:
    used = resources.get(kernel.name)
    shared = kernel.bytes_in(*_SHARED)
    if used is not None:
        shared = max(shared, used.static_shared_bytes + kernel.bytes_in("shared.dyn"))
    registers = used.registers if used else 0
    fits = occupancy(target, threads=kernel.threads, registers=registers, shared_bytes=shared)
    return KernelReport(kernel, shared, used, fits)


def _trimmed(extents: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """Leave out the dimensions of one at the end."""
    while len(extents) > 1 and extents[-1] == 1:
        extents = extents[:-1]
    return extents
