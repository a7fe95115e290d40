"""An NVIDIA GPU as a target: its space, its builds and its measurer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError
from schedlang.language.schedule import Trace
from schedlang.measurement import Measurer
from schedlang.spaces.space import Space
from schedlang.targets.cuda import availability, blame, kinship, nvcc
from schedlang.targets.cuda.device import driver_version, read_device
from schedlang.targets.cuda.limits import Limits
from schedlang.targets.cuda.machine import CUDAMachine
from schedlang.targets.cuda.named import DEVICE, MODELS, NAMES
from schedlang.targets.cuda.resolve import RATES
from schedlang.targets.cuda.space import cuda_space
from schedlang.targets.description import table
from schedlang.targets.target import Target
from schedlang.tvm import codegen
from schedlang.tvm.codegen import cuda
from schedlang.tvm.codegen.cuda_source import cuda_source
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.targets.deployment.callable import CompiledProgram
    from schedlang.tvm.codegen.compiler import CompilerTarget
    from schedlang.tvm.program import TensorProgram


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
        return kinship.distance(self, other) if isinstance(other, CUDAMachine) else None

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
        availability.check_requirements(recorded)
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
        availability.find_device(self)

    def measurer(self, workload: Workload | None, **options: Any) -> Measurer:
        """Start the worker processes that build here and run on the GPU; the caller closes them."""
        self.check_present()
        local = import_module("schedlang.targets.cuda.local")
        made: Measurer = local.LocalCUDA(workload, self, **options)
        return made

    def culprit(self, trace: Trace, reason: str) -> str:
        """Return what in a trace made a program that exceeds a limit of the GPU."""
        return blame.culprit(trace, reason)

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
