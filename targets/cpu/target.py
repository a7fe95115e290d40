"""The CPU as a target: its space, its builds and its measurer.

``CPUTarget`` is what ``sl.Target("cpu")`` makes. ``cpu_space`` composes the default space, and
``distance_of_cpus`` says how near the schedules of another CPU are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang import host
from schedlang.errors import TargetError
from schedlang.files import as_path
from schedlang.modules.cpu.draw_nests import move_data
from schedlang.modules.cpu.finish import parallel_vectorize_unroll, vector_math
from schedlang.modules.cpu.register_tile import register_tile
from schedlang.modules.inlining import (
    auto_inline,
    inline_constants,
    random_compute_location,
)
from schedlang.modules.reductions import add_rfactor, pad_einsum, place_padded_result
from schedlang.modules.tiling import multi_level_tiling
from schedlang.spaces.space import Space
from schedlang.targets.cpu import features
from schedlang.targets.cpu.cpu_machine import CPUMachine, parse_key
from schedlang.targets.cpu.estimate import estimate_seconds
from schedlang.targets.cpu.features import GENERIC, HOST, NAMED, NAMES, find_named
from schedlang.targets.cpu.local import LocalCPU
from schedlang.targets.cpu.resolve import is_like_host
from schedlang.targets.errors import BuildError, LibraryError, describe
from schedlang.targets.target import Target, as_target, size, table
from schedlang.tvm import codegen, program
from schedlang.tvm.analysis.loop_nests import statements
from schedlang.tvm.packing import in_each_call
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget
    from schedlang.tvm.program import TensorProgram


# -- The target -----------------------------------------------------------------------------------

# What ``describe`` shows besides the CPU and its features.
_NUMBERS = ("cores", "vector_bits", "vector_registers")
_SIZES = ("l1_bytes", "l2_bytes", "l3_bytes")


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
        return cls(**parse_key(key))

    def nearest_here(self) -> CPUTarget:
        """Return this target where it can run, else this machine, with its cores and vectors."""
        try:
            self.check_present()
        except TargetError:
            return type(self)(HOST, self.cores, vector_bits=self.vector_bits)
        return self

    def distance(self, other: Target) -> tuple[float, ...] | None:
        """Return how unlike this CPU another one is; None for another architecture."""
        return distance_of_cpus(self, other) if isinstance(other, CPUMachine) else None

    @classmethod
    def from_tvm_target(cls, target: CompilerTarget) -> CPUTarget:
        """Convert one of TVM's targets of kind llvm to a named target or a CPU."""
        found = codegen.target_attributes(target)
        triple, mcpu, attributes = found["triple"], found["mcpu"], found["attributes"]
        cores, bits = found["cores"], found["sve_bits"] or None
        named = find_named(triple.partition("-")[0] or host.architecture(), mcpu, attributes)
        if named is not None:
            return cls(named.name, cores, vector_bits=bits)
        if mcpu == codegen.host_cpu() and not attributes and is_like_host(triple):
            mcpu = None  # this machine, with the features that it has
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
        return {
            **super().deployment(),
            "architecture": self.architecture,
            "mcpu": self.mcpu,
            "features": sorted(self.features & features.KNOWN),
            "sve_bits": self.llvm_options()["sve_bits"],
        }

    @classmethod
    def check_deployment(cls, recorded: Mapping[str, Any]) -> None:
        """Raise TargetError unless this machine has the architecture and features it needs."""
        what = f"the library was made for {recorded['key']}"
        if recorded["architecture"] != host.architecture():
            raise TargetError(
                f"{what}, a machine of the architecture {recorded['architecture']}, and this one "
                f"is {host.architecture()}: export the program for this machine"
            )
        missing = [one for one in recorded["features"] if one not in features.host_features()]
        if missing:
            raise TargetError(
                f"{what} (LLVM's {recorded['mcpu']}), and this machine, a {codegen.host_cpu()}, "
                f"lacks {', '.join(missing)}: its code would end the process. Export it for this "
                "machine, or for one of the named targets that both have, such as x86/avx2"
            )
        wide, here = recorded["sve_bits"], host.sve_bits() or 0
        if wide > here:
            raise TargetError(
                f"{what}, whose SVE registers have {wide} bits, and here they have {here}: export "
                "the program for this machine"
            )

    def export_c(
        self,
        mod: TensorProgram,
        path: str | Path,
        *,
        name: str | None = None,
        compiler: str | None = None,
    ) -> Path:
        """Compile ``mod`` into a library for C, see ``Target.export_c``."""
        from schedlang.targets.deployment.c_export import write_c
        from schedlang.targets.deployment.library import compile_module
        from schedlang.targets.deployment.signature import signatures_of

        signatures = signatures_of(mod)
        for func in program.named_functions(mod).values():
            for one in program.parameters(func):
                if not one.compact:
                    raise LibraryError(f"{one.name} has strides or an offset, which C has not")
        generator = self.code_generator(self.spec())
        return write_c(
            lambda: compile_module(mod, generator, check_arguments=False),
            signatures,
            self.deployment(),
            as_path(path),
            name=name,
            compiler=compiler,
        )

    def measurer(self, workload: Workload | None, **options: Any) -> LocalCPU:
        """Start the worker processes of this machine; the caller closes them."""
        return LocalCPU(workload, self, **options)

    def missing_features(self) -> tuple[str, ...]:
        """Return the features, by LLVM's names, that it needs and this machine lacks."""
        wanted = dict.fromkeys(features.needed(self.attributes))
        if self.name in NAMED:
            wanted |= dict.fromkeys(NAMED[self.name].requires)
        if self.is_one_cpu:
            # LLVM may use every feature of this CPU.
            wanted |= dict.fromkeys(sorted(self.features & features.KNOWN))
        available = features.host_features()
        return tuple(feature for feature in wanted if feature not in available)

    def check_present(self) -> None:
        """Raise TargetError unless this machine can run programs for this target; say what is
        missing.
        """
        here = codegen.host_cpu()
        if self.architecture != host.architecture():
            raise TargetError(
                f"target {self.key!r} is for {self.architecture}, and this machine is "
                f"{host.architecture()}: compile for it here, and measure on such a machine"
            )
        missing = ", ".join(self.missing_features())
        if self.machine not in (GENERIC, here):
            lacks = f", which lacks {missing}" if missing else ""
            raise TargetError(
                f"target {self.key!r} is a {self.machine}, and this machine is a {here}{lacks}: "
                "measure on that machine"
            )
        if missing:
            raise TargetError(
                f"target {self.key!r} needs {missing}, and this machine, a {here}, lacks that: "
                "measure on one that has it, or choose a target that needs less"
            )
        if self.cores > len(self.cpus):
            raise TargetError(
                f"target {self.key!r} wants {self.cores} cores, and this process may use "
                f"{len(self.cpus)}: widen its affinity mask or ask for fewer"
            )

    def provenance(self) -> dict[str, str]:
        """Return the versions of the software, ``cpu`` and ``cpu_features``."""
        return {
            **super().provenance(),
            "cpu": host.cpu_model() or host.architecture() or "unknown",
            "cpu_features": " ".join(sorted(self.features & features.KNOWN)),
        }

    def describe(self) -> str:
        """Return a table of all that is known about it, and how each is known."""
        values = {"mcpu": self.mcpu}
        values |= {key: str(getattr(self, key)) for key in _NUMBERS}
        values |= {key: size(getattr(self, key)) for key in _SIZES}
        values["max_unrolled"] = str(self.max_unrolled)
        values["peak_flops"] = f"{self.peak_flops:.2e}"
        names = " ".join(sorted(self.features & features.KNOWN))
        last = ("features", names or "none known", f"({self._says_features()})")
        return table(self.key, values, self.sources, last)

    def _says_features(self) -> str:
        says = f"LLVM for {''.join((self.mcpu, *self.attributes))}"
        if self.missing_features() or self.architecture != host.architecture():
            return f"{says}; this machine lacks some"
        confirmed = host.cpu_flags() is not None
        return f"{says}; /proc/cpuinfo has them" if confirmed else f"{says}; no /proc/cpuinfo"

    def __repr__(self) -> str:
        """Write it as users do: ``Target(name=...)``."""
        return super().__repr__().removeprefix("CPU")


# -- The spaces: the default one, and that of programs that only move data ------------------------

# Probability that a block is tiled for registers where it could also be tiled in levels, and
# probability of what nearly always pays: inlining transposes, vector mathematics, finishing along
# the stored axis. The alternatives are in the space because some program may need them.
_REGISTER_TILES = 0.9
_USUAL = 0.95
# As a producer's place, each loop is this many times as likely as the loop around it.
_OUTER_LOCATIONS = 0.75
# Operations and accesses to elements from which on a program is worth threads everywhere.
_LARGE_WORK = 2**17


def cpu_space(target: CPUMachine, *, priors: bool = True) -> Space:
    """Inline, tile, place the remaining blocks, then parallelise, vectorise and unroll.

    The prior depends on the machine: its vectors, for elements of 32 bits, its vector
    registers and its cores. Programs that waste them become rare, and none is forbidden. Without
    ``priors`` every draw is uniform.
    """
    lanes = target.lanes(32)
    usual = _USUAL if priors else 0.5
    # One module for both, so that a module placed before or instead of it gets untiled blocks.
    tiling = Space(
        [
            register_tile(
                lanes=lanes,
                registers=target.vector_registers,
                cache_bytes=target.l2_bytes // 2,
                prob=_REGISTER_TILES if priors else 0.5,
                prior=priors,
            ),
            multi_level_tiling(structure=("SSRSRS", "SSRS"), vector_lanes=lanes if priors else 0),
        ]
    )
    return Space(
        [
            inline_constants,
            auto_inline(always_in_spatial_programs=True, unordered_prob=usual),
            pad_einsum(lanes=lanes),
            add_rfactor(cores=target.cores, vector_lanes=lanes if priors else 0),
            tiling.as_module("multi_level_tiling"),
            place_padded_result,
            random_compute_location(decay=_OUTER_LOCATIONS if priors else 1.0),
            vector_math(prob=usual),
            parallel_vectorize_unroll(
                cores=target.cores, max_lanes=4 * lanes, prob=usual, large_work=_LARGE_WORK
            ),
        ],
        name="cpu",
    )


def cpu_movement_space(target: CPUMachine) -> Space:
    """Inline what can be inlined, and finish each block by a closed form: two programs at most."""
    return Space(
        [
            inline_constants,
            auto_inline(always_in_spatial_programs=True),
            move_data(cores=target.cores),
        ],
        name="cpu_movement",
    )


# -- How near the schedules of another CPU are to this one ----------------------------------------

_SAME, _NARROWER, _WIDER = range(3)


def distance_of_cpus(machine: CPUMachine, other: CPUMachine) -> tuple[float, ...] | None:
    """Return how unlike ``machine`` another CPU is; None for one of another architecture.

    The width of the vectors counts first, as tiles are multiples of it: the same width, then
    narrower vectors, then wider ones, the nearest width first. Then the instruction set, by the
    number of features that only one of both has, the number of cores, and the model.
    """
    if machine.architecture != other.architecture:
        return None
    width = math.log2(other.vector_bits / machine.vector_bits)
    differing = (machine.features ^ other.features) & features.KNOWN
    return (
        _SAME if width == 0 else _NARROWER if width < 0 else _WIDER,
        abs(width),
        len(differing),
        abs(math.log2(other.cores / machine.cores)),
        machine.machine != other.machine,
    )


# -- The machine code of a program as text, also for machines that are not here -------------------


def generate_assembly(mod: TensorProgram, target: Target | str | Any = "cpu") -> str:
    """Compile ``mod`` for ``target`` and return its assembly. Nothing is run.

    Raises ``BuildError``.
    """
    tvm_target = as_target(target).tvm_target()
    try:
        executable = codegen.compile_program(mod, tvm_target, check_arguments=False)
        return codegen.assembly(executable)
    except Exception as error:
        raise BuildError(describe(error)) from error
