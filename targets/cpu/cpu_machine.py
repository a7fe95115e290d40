"""The properties of a CPU that programs are scheduled for, its options for LLVM, and its key.

``CPUMachine.key`` writes the key that records of a CPU are stored under; ``parse_key`` reads it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from schedlang import host
from schedlang.errors import TargetError
from schedlang.targets.cpu import features
from schedlang.targets.cpu.features import GENERIC, HOST, NAMED
from schedlang.targets.cpu.resolve import resolve
from schedlang.targets.target import Target, as_target
from schedlang.tvm import codegen

if TYPE_CHECKING:
    from schedlang.tvm.codegen.compiler import CompilerTarget


# -- The machine ----------------------------------------------------------------------------------

# A vectorised loop takes at most this many vectors at a time: enough independent work for the
# pipelines, and few enough for all operands of a statement to stay in registers.
_VECTORS_AT_ONCE = 4
# For vectors of a fixed length, SVE registers of this width have no advantage over NEON's.
_LEAST_SVE_BITS = 128


@dataclass(frozen=True, slots=True, init=False)
class CPUMachine(Target):
    """A CPU: the instructions, cores and caches that programs for it may use.

    The name ``"cpu"`` is the machine that the process runs on. The other names, such as
    ``"x86/avx2"`` or ``"aarch64/sve"``, are instruction sets. Where this machine has the
    instructions, the target is this machine limited to them. Where it does not, programs can be
    scheduled and compiled, and measured on another machine. With ``mcpu`` the target is a machine
    with that CPU and all its features. Values that are not given are looked up; ``describe()``
    shows their sources. Caches, other limits and CPU numbers do not take part in equality.
    What a key tells is never looked up: ``Target.from_key`` gives the same target on every host.

    Attributes
    ----------
    name: one of ``schedlang.targets.cpu.features.NAMES``.
    kind: ``"cpu"``.
    cores: physical cores that the process may use.
    mcpu: LLVM's name of the CPU that code is generated for.
    vector_bits: width of a vector register in bits. For SVE 128, the minimum, unless given; code
        for a larger width runs only on machines that have it.
    peak_flops: upper bound on its arithmetic, in operations on 32-bit elements per second: cores x
        elements per vector x 2 for a multiply-add x units per core x 6.5 GHz, a clock that no CPU
        reaches. A program far above it did not do its work (see ``schedlang.targets.roofline``);
        ``math.inf`` disables the check.
    triple: LLVM's name of architecture and system; empty for this machine's.
    attributes: features to add to those of ``mcpu`` or to remove: ``("+avx512vnni", "-sve")``.
    machine: LLVM's name of the CPU that runs the programs, ``"generic"`` if any may. By default
        that of this machine, where it has the instructions that the name stands for.
    vector_registers: number of vector registers.
    l1_bytes, l2_bytes, l3_bytes: sizes of the data caches, as one core sees them.
    max_unrolled: instructions of an unrolled loop body that fit the first-level instruction cache.
    cpus: the logical CPUs of this process that threads are bound to, one per core.
    sources: the source of each value.

    Raises ``TargetError`` for an unknown name, a CPU that LLVM does not know or that lacks what the
    name stands for, and a limit that is not positive.
    """

    name: str
    cores: int
    mcpu: str
    vector_bits: int
    peak_flops: float = field(compare=False, repr=False)
    triple: str = field(repr=False)
    attributes: tuple[str, ...] = field(repr=False)
    vector_registers: int = field(compare=False, repr=False)
    l1_bytes: int = field(compare=False, repr=False)
    l2_bytes: int = field(compare=False, repr=False)
    l3_bytes: int = field(compare=False, repr=False)
    max_unrolled: int = field(compare=False, repr=False)
    machine: str = field(repr=False)
    kind: str = field(init=False)
    cpus: tuple[int, ...] = field(init=False, compare=False, repr=False)
    sources: Mapping[str, str] = field(init=False, compare=False, repr=False)

    def __init__(
        self,
        name: str = HOST,
        cores: int | None = None,
        mcpu: str | None = None,
        vector_bits: int | None = None,
        peak_flops: float | None = None,
        *,
        triple: str | None = None,
        attributes: tuple[str, ...] | None = None,
        vector_registers: int | None = None,
        l1_bytes: int | None = None,
        l2_bytes: int | None = None,
        l3_bytes: int | None = None,
        max_unrolled: int | None = None,
        machine: str | None = None,
    ) -> None:
        numbers = {
            "cores": cores,
            "vector_bits": vector_bits,
            "peak_flops": peak_flops,
            "vector_registers": vector_registers,
            "l1_bytes": l1_bytes,
            "l2_bytes": l2_bytes,
            "l3_bytes": l3_bytes,
            "max_unrolled": max_unrolled,
        }
        given = {key: number for key, number in numbers.items() if number is not None}
        listed: Any = attributes
        if isinstance(listed, Iterable) and not isinstance(listed, str):
            attributes = tuple(listed)
        for key, value in resolve(name, mcpu, triple, attributes, machine, given).items():
            object.__setattr__(self, key, value)
        object.__setattr__(self, "kind", "cpu")

    @property
    def key(self) -> str:
        """Text that is equal for machines whose records can be exchanged; the same in every run.

        A named instruction set with a CPU of its own, ``mcpu``, is that CPU: so is its code.
        """
        if self.name == HOST or self.is_one_cpu:
            machine = "".join((f"{self.kind}/{self.mcpu}", *self.attributes))
            if self.mcpu == GENERIC:
                machine += f"@{self.architecture}"
        else:
            machine = f"{self.name}@{self.machine}"
        return f"{machine}/cores={self.cores}/vector={self.vector_bits}"

    @property
    def is_one_cpu(self) -> bool:
        """Whether it is one model of CPU, with all its features, and no instruction set."""
        return self.machine == self.mcpu != GENERIC

    @property
    def architecture(self) -> str:
        """``"x86_64"``, ``"aarch64"``, ..."""
        return self.triple.partition("-")[0] or host.architecture()

    @property
    def features(self) -> frozenset[str]:
        """LLVM's names of the features that code may use: ``"avx512vnni"``, ``"dotprod"``, ..."""
        return features.features_of(self.mcpu, self.triple, self.attributes)

    def lanes(self, dtype_bits: int) -> int:
        """Return how many elements of ``dtype_bits`` bits a vector register holds, at least 1."""
        if dtype_bits < 1:
            raise TargetError(f"lanes: dtype_bits={dtype_bits}; give 1 or more")
        return max(self.vector_bits // dtype_bits, 1)

    def max_lanes(self, dtype_bits: int) -> int:
        """Return how many elements a vectorised loop should have at most: four registers' worth."""
        return _VECTORS_AT_ONCE * self.lanes(dtype_bits)

    def llvm_options(self) -> dict[str, Any]:
        """Return what ``tvm_target`` tells LLVM, as arguments of ``codegen.llvm_target``."""
        sve = "sve" in self.features and self.vector_bits > _LEAST_SVE_BITS
        return {
            "mcpu": self.mcpu,
            "cores": self.cores,
            "triple": self.triple,
            "attributes": list(self.attributes),
            "sve_bits": self.vector_bits if sve else 0,
        }

    def tvm_target(self) -> CompilerTarget:
        """Return TVM's target for this machine."""
        return codegen.llvm_target(**self.llvm_options())


def as_cpu(value: Any) -> CPUMachine:
    """Return the target that ``value`` means; TargetError when it is no CPU."""
    found = as_target(value)
    if isinstance(found, CPUMachine):
        return found
    raise TargetError(
        f"target {found.key!r} is of kind {found.kind!r}, and this measures on CPUs; "
        "target.measurer(workload) starts what measures on it"
    )


# -- Reading the keys of CPUs ---------------------------------------------------------------------

_KEY = re.compile(
    r"(?P<name>[^/@]+/[^/@]+)(@(?P<machine>[^/]+))?/cores=(?P<cores>\d+)/vector=(?P<bits>\d+)"
)
_TRIPLES = {entry.architecture: entry.triple for entry in NAMED.values()}


def parse_key(key: str) -> dict[str, Any]:
    """Read ``"cpu/skylake-avx512+avx512vnni/cores=4/vector=512"``, ``"x86/avx2@znver3/..."``.

    Returns arguments of ``CPUTarget``: those for LLVM only where the name does not say them.

    Raises TargetError unless ``key`` is that of a CPU, and for a CPU that LLVM does not know.
    """
    found = _KEY.fullmatch(key)
    if found is None:
        raise TargetError(f"{key!r} is not the key of a CPU, as in cpu/znver3/cores=8/vector=256")
    name, machine = found["name"], found["machine"]
    numbers = {"cores": int(found["cores"]), "vector_bits": int(found["bits"])}
    if name in NAMED:
        return {"name": name, **numbers, "machine": machine or GENERIC}
    mcpu, triple, attributes = _code_of(key, name.partition("/")[2], machine)
    code = {"mcpu": mcpu, "triple": triple, "attributes": attributes}
    return {"name": HOST, **numbers, **code}


def _code_of(
    key: str, text: str, architecture: str | None
) -> tuple[str, str | None, tuple[str, ...]]:
    """Split ``"skylake-avx512+avx512vnni"``: CPU, triple and attributes.

    Names of CPUs have dashes too: the longest one that LLVM knows is the CPU. This machine's
    architecture comes last: the key means the same on every host.
    """
    here = host.architecture()
    architectures = [architecture] if architecture else [*_TRIPLES, here]
    ends = [len(text), *(one.start() for one in reversed(list(re.finditer("[+-]", text))))]
    for place in architectures:
        triple = None if place == here else _TRIPLES.get(place)
        for end in ends if triple or place == here else ():
            if codegen.is_cpu(text[:end], triple or ""):
                return text[:end], triple, tuple(re.findall("[+-][^+-]+", text[end:]))
    raise TargetError(f"the key {key!r}: LLVM knows no CPU {text!r}")
