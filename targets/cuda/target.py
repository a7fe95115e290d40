"""An NVIDIA GPU as a target: its space, its builds and its measurer.

``CUDATarget`` is what ``sl.Target("cuda")`` makes. ``cuda_space`` composes the default space,
``find_device`` finds the GPU of this machine that runs a target's programs, and ``culprit`` says
what in a trace makes a program that no GPU launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError
from schedlang.instructions.instruction import Instruction
from schedlang.interpreters.conversions import flatten
from schedlang.interpreters.replay import block_of
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurer
from schedlang.modules.gpu.auto_bind import auto_bind
from schedlang.modules.gpu.cross_thread_reduction import cross_thread_reduction
from schedlang.modules.gpu.finish_threads import finish_threads
from schedlang.modules.gpu.thread_tiling import thread_tiling
from schedlang.modules.inlining import auto_inline, inline_constants
from schedlang.spaces.space import Space
from schedlang.targets.cuda import nvcc
from schedlang.targets.cuda.attributes import DEVICE, MODELS, NAMES, RATES, model_name, unfit
from schedlang.targets.cuda.cuda_api import (
    Device,
    device_count,
    driver_version,
    read_device,
    why_none,
)
from schedlang.targets.cuda.limits import CUDAMachine, Limits, Reason
from schedlang.targets.target import Target, table
from schedlang.tvm import codegen
from schedlang.tvm.codegen import cuda
from schedlang.tvm.codegen.cuda_source import cuda_source
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.targets.deployment.callable import CompiledProgram
    from schedlang.tvm.codegen.compiler import CompilerTarget
    from schedlang.tvm.program import TensorProgram


# -- The target -----------------------------------------------------------------------------------

# What ``describe`` shows besides the architecture and the rates.
_NUMBERS = (
    "sms",
    "warp_size",
    "max_threads_per_block",
    "max_threads_per_sm",
    "max_blocks_per_sm",
    "registers_per_block",
    "registers_per_sm",
    "max_registers_per_thread",
)
_SIZES = (
    "shared_bytes",
    "shared_bytes_optin",
    "shared_bytes_per_sm",
    "reserved_shared_bytes",
    "l2_bytes",
)
_KIB = 1 << 10


class CUDATarget(CUDAMachine):
    """An NVIDIA GPU, described by ``CUDAMachine``: its space, and how it builds and measures.

    ``Target("cuda")`` makes one of the GPU that is here; ``Target("cuda", arch="sm_90")`` and
    ``Target("h100")`` need none.
    """

    __slots__ = ()

    tvm_kind = "cuda"
    code_forms = ("cuda",)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the names of the architectures and models."""
        return NAMES

    @classmethod
    def from_key(cls, key: str) -> CUDATarget:
        """Return the model that the key has, or a GPU of its architecture.

        What no data sheet tells of that is unknown: rates are infinite.
        """
        _, arch, *rest = key.split("/") if "/" in key else (key, None)
        numbers = dict(part.partition("=")[::2] for part in rest if "=" in part)
        sms = int(numbers["sms"]) if numbers.get("sms", "").isdecimal() else None
        if rest and rest[0] in MODELS:
            made = cls(f"nvidia/{rest[0]}", arch, sms=sms)
            if made.key == key:
                return made
        unknown: dict[str, Any] = dict.fromkeys(RATES, math.inf)
        return cls(DEVICE, arch, sms=sms, **unknown)

    def nearest_here(self) -> CUDATarget:
        """Return this target where its GPU is here, else any GPU of the architecture."""
        try:
            self.check_present()
        except TargetError:
            return type(self)(DEVICE, self.arch)
        return self

    def distance(self, other: Target) -> tuple[float, ...] | None:
        """Return how unlike this GPU another one is; None for a newer architecture."""
        return distance_of_gpus(self, other) if isinstance(other, CUDAMachine) else None

    @classmethod
    def from_tvm_target(cls, target: CompilerTarget) -> CUDATarget:
        """Convert one of TVM's targets of kind cuda to a model or an architecture."""
        found = cuda.target_attributes(target)
        if found["model"] in MODELS:
            return cls(f"nvidia/{found['model']}", found["arch"])
        return cls(DEVICE, found["arch"], l2_bytes=found["l2_bytes"])

    def default_space(self) -> Space:
        """Return ``cuda_space`` for this GPU."""
        return cuda_space(self)

    def code(self, mod: TensorProgram, form: str) -> str:
        """Return CUDA C++, ``form`` being ``"cuda"``."""
        if form not in self.code_forms:
            return super().code(mod, form)
        return cuda_source(mod, self.tvm_target()).text

    def spec(self) -> dict[str, Any]:
        """Describe its code generation as JSON values, for ``targets.kinds.code_generator``.

        ``limits`` is for ``schedlang.targets.cuda.limits``.
        """
        return {
            "kind": self.kind,
            "tvm_target": codegen.target_json(self.tvm_target()),
            "device": self.device or 0,
            "limits": asdict(Limits.of(self)),
        }

    @classmethod
    def code_generator(cls, spec: Mapping[str, Any]) -> cuda.CUDAGenerator:
        """Make the code generator that the ``spec()`` of a target of this kind describes."""
        return cuda.CUDAGenerator.from_json(spec["tvm_target"], spec["device"])

    def deployment(self) -> dict[str, Any]:
        """Return what a library for the target records: the architecture of its code too."""
        return {**super().deployment(), "arch": self.arch}

    @classmethod
    def check_deployment(cls, recorded: Mapping[str, Any]) -> None:
        """Raise TargetError unless a GPU of this machine runs code for the architecture."""
        check_requirements(recorded)
        nvcc.compile_with_nvcc(recorded["arch"])

    def build(self, mod: TensorProgram) -> CompiledProgram:
        """Compile ``mod`` with nvcc and load it, see ``Target.build``: tensors are on the GPU."""
        nvcc.compile_with_nvcc(self.arch)
        return super().build(mod)

    def export_library(self, mod: TensorProgram, path: str | Path) -> Path:
        """Compile ``mod`` into a shared library, see ``Target.export_library``.

        Where TVM finds a GPU it holds machine code; elsewhere the source, which nvcc compiles when
        the library is loaded.
        """
        nvcc.compile_with_nvcc(self.arch)
        return super().export_library(mod, path)

    def check_present(self) -> None:
        """Raise TargetError unless a GPU of this machine is the target; say what is missing."""
        find_device(self)

    def measurer(self, workload: Workload | None, **options: Any) -> Measurer:
        """Start the worker processes that build here and run on the GPU; the caller closes them."""
        self.check_present()
        local = import_module("schedlang.targets.cuda.local")
        made: Measurer = local.LocalCUDA(workload, self, **options)
        return made

    def culprit(self, trace: Trace, reason: str) -> str:
        """Return what in a trace made a program that exceeds a limit of the GPU."""
        return culprit(trace, reason)

    def provenance(self) -> dict[str, str]:
        """Return the versions of the software, ``gpu``, ``cuda_driver`` and ``nvcc``."""
        name = self.model or "unknown"
        return {
            **super().provenance(),
            "gpu": name if self.device is None else read_device(self.device).name,
            "cuda_driver": driver_version(),
            "nvcc": nvcc.version(),
        }

    def describe(self) -> str:
        """Return a table of all that is known about it, and how each is known."""
        values = {"arch": self.arch}
        values |= {key: str(getattr(self, key)) for key in _NUMBERS}
        values |= {key: f"{getattr(self, key) // _KIB} KiB" for key in _SIZES}
        values |= {key: f"{getattr(self, key):.3g}" for key in RATES}
        return table(self.key, values, self.sources)

    def __repr__(self) -> str:
        """Write it as users do: ``Target(name=...)``."""
        return super().__repr__().removeprefix("CUDA")


# -- The default space ----------------------------------------------------------------------------

# Compute capability from which on memory is copied to shared memory asynchronously (cp.async).
_ASYNCHRONOUS = (8, 0)
_DEPTHS = (3, 4, 5)
# Probability of sharing a reduction among threads, which nearly always pays.
_USUAL = 0.9


def cuda_space(target: CUDAMachine, *, priors: bool = True) -> Space:
    """Tile for blocks and threads, inline, reduce across threads, bind what is left, and unroll.

    The structure is MetaSchedule's for CUDA. From compute capability 8.0 on, copies of operands may
    overlap with the computation. The prior depends on the machine: its multiprocessors, and the
    threads and the shared memory of a block; it makes programs that cannot start rare, and forbids
    none. Without ``priors`` every draw is uniform.
    """
    threads = target.max_threads_per_block
    asynchronous = target.compute_capability >= _ASYNCHRONOUS
    return Space(
        [
            thread_tiling(
                sms=target.sms,
                max_threads_per_block=threads,
                shared_bytes=target.shared_bytes,
                pipeline_depths=_DEPTHS if asynchronous else (),
                prior=priors,
            ).renamed("multi_level_tiling"),
            inline_constants,
            auto_inline(
                into_producer=True,
                inline_branches=True,
                inline_expensive=True,
                weights_ahead=False,
            ),
            cross_thread_reduction(
                max_threads_per_block=threads, prob=_USUAL if priors else 0.5, prior=priors
            ),
            auto_bind(max_threads_per_block=threads, sms=target.sms if priors else 0),
            finish_threads(max_threads_per_block=threads),
        ],
        name="cuda",
    )


# -- The GPU of this machine that runs the programs of a target -----------------------------------


def find_device(target: CUDAMachine) -> Device:
    """Return the GPU of this machine that runs programs for ``target``.

    That is the one it was made from, or else the first that fits. TargetError says why there is
    none.
    """
    indices = range(device_count()) if target.device is None else [target.device]
    if not indices:
        raise TargetError(
            f"target {target.key!r} needs a GPU to run its programs, and {why_none()}: measure on "
            "a machine that has one; here they can be compiled and checked "
            "(schedlang.targets.cuda.check)"
        )
    reasons = {}
    for device in map(read_device, indices):
        reason = _misfit(target, device)
        if not reason:
            return device
        reasons[device.index] = f"GPU {device.index} is a {device.name} {reason}"
    raise TargetError(
        f"target {target.key!r} is another machine than this: {'; '.join(reasons.values())}. "
        'Measure on a machine that has one, or take Target("cuda"), the GPU that is here'
    )


def _misfit(target: CUDAMachine, device: Device) -> str:
    reason = unfit(target.arch, device)
    if reason:
        return reason
    if target.model and target.model != model_name(device.name):
        return f"and no {target.model}"
    sms = device.numbers.get("sms", target.sms)
    fixed = target.model or target.sources["sms"] == "given"
    return f"with {sms} multiprocessors and not {target.sms}" if fixed and sms != target.sms else ""


def check_requirements(recorded: Mapping[str, Any]) -> None:
    """Raise TargetError unless a GPU here runs the code of a library that records ``arch``."""
    what = f"the library was made for {recorded['key']}"
    devices = [read_device(index) for index in range(device_count())]
    if not devices:
        raise TargetError(f"{what}: its functions run on a GPU, and {why_none()}")
    reasons = [unfit(recorded["arch"], device) for device in devices]
    if all(reasons):
        raise TargetError(
            f"{what}, and the GPU here, a {devices[0].name}, is {reasons[0]} and export it again"
        )


# -- How near the schedules of another GPU are to this one ----------------------------------------


def distance_of_gpus(machine: CUDAMachine, other: CUDAMachine) -> tuple[float, ...] | None:
    """Return how unlike ``machine`` another GPU is; None for one of a newer architecture.

    Schedules for a newer one may need what this one lacks. The nearest compute capability comes
    first. Of one capability, schedules for what only some of its GPUs run, such as ``"sm_90a"``,
    come after the others, unless this target has all of it too. Then the number of multiprocessors
    counts, and the model.
    """
    if other.compute_capability > machine.compute_capability:
        return None
    return (
        _number(machine) - _number(other),
        _has_own_features(other) and machine.arch != other.arch,
        abs(math.log2(other.sms / machine.sms)),
        machine.model != other.model,
    )


def _number(machine: CUDAMachine) -> int:
    major, minor = machine.compute_capability
    return 10 * major + minor


def _has_own_features(machine: CUDAMachine) -> bool:
    return machine.arch[-1].isalpha()


# -- What in a trace makes a program that a GPU does not launch -----------------------------------


def culprit(trace: Trace, reason: str) -> str:
    """Name module, instruction and block: ``"stage_in_shared: cache_read at block C"``.

    It is the first instruction that can cause a rejection for ``reason``: later ones, such as those
    of copies, follow it. Empty if there is none.
    """
    causes = _CAUSES.get(reason)
    if causes is None or trace.workload is None:
        return ""
    line = flatten(trace.instructions, trace.workload)
    for instruction in line:
        if causes(instruction):
            block = block_of(line, instruction)
            module = f"{instruction.module}: " if instruction.module else ""
            return f"{module}{instruction.kind.name}" + (f" at block {block}" if block else "")
    return ""


def _binds(axis: str) -> Callable[[Instruction], bool]:
    return lambda one: one.kind.name == "bind" and _has_text(one, axis)


def _stages(one: Instruction) -> bool:
    """Tell whether an instruction puts a buffer into shared memory."""
    return not one.site and one.kind.name != "annotate" and _has_text(one, "shared")


def _vectorises(one: Instruction) -> bool:
    return one.kind.name == "vectorize"


def _has_text(one: Instruction, start: str) -> bool:
    return any(isinstance(argument, str) and argument.startswith(start) for argument in one.args)


_CAUSES: Mapping[str, Callable[[Instruction], bool]] = {
    Reason.THREADS: _binds("threadIdx"),
    Reason.REGISTERS: _binds("threadIdx"),
    Reason.GRID: _binds("blockIdx"),
    Reason.SHARED_MEMORY: _stages,
    Reason.ALIGNMENT: _vectorises,
}
