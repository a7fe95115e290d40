"""The CPU as a target: its space, its builds and its measurer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError
from schedlang.spaces.space import Space
from schedlang.targets import host
from schedlang.targets.cpu import availability, description, features
from schedlang.targets.cpu.assembly import generate_assembly
from schedlang.targets.cpu.estimate import estimate_seconds
from schedlang.targets.cpu.keys import parse_key
from schedlang.targets.cpu.local import LocalCPU
from schedlang.targets.cpu.machine import CPUMachine
from schedlang.targets.cpu.named import HOST, NAMES, find_named
from schedlang.targets.cpu.space import cpu_movement_space, cpu_space
from schedlang.tvm import codegen
from schedlang.tvm.analysis.nests.statements import statements
from schedlang.tvm.packing import in_each_call
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget
    from schedlang.tvm.program import TensorProgram


class CPUTarget(CPUMachine):
    """A CPU, described by ``CPUMachine``: its space, and how it builds and measures programs.

    ``Target("cpu")`` and ``Target("x86/avx2")`` make one.
    """

    __slots__ = ()

    tvm_kind = "llvm"
    on_host = True
    code_forms = ("assembly",)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return ``"cpu"`` and the names of the instruction sets."""
        return NAMES

    @classmethod
    def from_key(cls, key: str) -> CPUTarget:
        """Return the CPU, with the cores and the vectors that the key has."""
        told = parse_key(key)
        made = cls(told.name, told.cores, told.mcpu, told.vector_bits, **told.code)
        if made.key == key or told.machine is None:
            return made
        # Code for the named instruction set runs there; or code for that very CPU does.
        return cls(told.name, told.cores, told.machine, told.vector_bits)

    def nearest_here(self) -> CPUTarget:
        """Return this target where it can run, else this machine, with its cores and vectors."""
        try:
            self.check_present()
        except TargetError:
            return type(self)(HOST, self.cores, vector_bits=self.vector_bits)
        return self

    @classmethod
    def from_tvm_target(cls, target: CompilerTarget) -> CPUTarget:
        """Convert one of TVM's targets of kind llvm to a named target or a CPU."""
        found = codegen.target_attributes(target)
        triple, mcpu, attributes = found["triple"], found["mcpu"], found["attributes"]
        cores, bits = found["cores"], found["sve_bits"] or None
        named = find_named(triple.partition("-")[0] or host.architecture(), mcpu, attributes)
        if named is not None:
            return cls(named.name, cores, vector_bits=bits)
        return cls(HOST, cores, mcpu, bits, triple=triple, attributes=attributes or None)

    def default_space(self) -> Space:
        """Return ``cpu_space`` for this machine."""
        return cpu_space(self)

    def movement_space(self) -> Space:
        """Return ``cpu_movement_space`` for this machine."""
        return cpu_movement_space(self)

    def estimate(self, mod: TensorProgram) -> float:
        """Return ``estimate_seconds`` for this machine, without what runs ahead of all calls."""
        return estimate_seconds(statements(in_each_call(mod["main"])), self)

    def code(self, mod: TensorProgram, form: str) -> str:
        """Return the machine code as text, ``form`` being ``"assembly"``."""
        return generate_assembly(mod, self) if form == "assembly" else super().code(mod, form)

    @property
    def pool_threads(self) -> int:
        """One thread on each core, as the workers have that measure."""
        return self.cores

    def deployment(self) -> dict[str, Any]:
        """Return what a library for the target records: the CPU, its features and the threads."""
        return {**super().deployment(), **availability.requirements(self)}

    @classmethod
    def check_deployment(cls, recorded: Mapping[str, Any]) -> None:
        """Raise TargetError unless this machine has the architecture and features it needs."""
        availability.check_requirements(recorded)

    def measurer(self, workload: Workload | None, **options: Any) -> LocalCPU:
        """Start the worker processes of this machine; the caller closes them."""
        return LocalCPU(workload, self, **options)

    def missing_features(self) -> tuple[str, ...]:
        """Return the features, by LLVM's names, that it needs and this machine lacks."""
        return availability.missing_features(self)

    def check_present(self) -> None:
        """Raise TargetError unless this machine can run programs for this target; say what is
        missing.
        """
        availability.check_present(self)

    def provenance(self) -> dict[str, str]:
        """Return the versions of the software, ``cpu`` and ``cpu_features``."""
        return {
            **super().provenance(),
            "cpu": _cpu_name() or "unknown",
            "cpu_features": " ".join(sorted(self.features & features.KNOWN)),
        }

    def describe(self) -> str:
        """Return a table of all that is known about it, and how each is known."""
        return description.describe(self)

    def __repr__(self) -> str:
        """Write it as users do: ``Target(name=...)``."""
        return super().__repr__().removeprefix("CPU")


@cache
def _cpu_name(root: Path = Path("/")) -> str:
    """Return the CPU's model name; its architecture if that is unknown."""
    try:
        text = (root / "proc/cpuinfo").read_text()
    except OSError:
        text = ""
    match = re.search(r"^(?:model name|Hardware|CPU part)\s*:(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else host.architecture()
