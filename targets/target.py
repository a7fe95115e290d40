"""Targets: which machine a program is scheduled for."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import metadata
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError
from schedlang.targets import host
from schedlang.tvm import codegen

if TYPE_CHECKING:
    from tvm.target import Target as TVMTarget

NAMES = ("cpu",)

# For peak_flops. No CPU runs faster than this many cycles a second, or has more units for fused
# multiply-adds in a core: two where vectors are wide, four where they are of 128 bits.
_CYCLES = 6.5e9
_WIDE_UNITS, _NARROW_UNITS = 2, 4
_NARROW_BITS = 128


@dataclass(frozen=True, slots=True)
class Target:
    """A machine. ``Target("cpu")`` is the one that the process runs on, as far as it may use it.

    What is not given is found out from the machine. Caches and CPU numbers are this machine's, and
    do not take part in equality.

    Attributes
    ----------
    name: ``"cpu"``.
    kind: the sort of machine, ``"cpu"``.
    cores: real cores that the process may use; hardware threads of one core count once.
    mcpu: LLVM's name of the CPU.
    vector_bits: width of its vector registers, in bits.
    peak_flops: an upper bound on its arithmetic, in operations on 32-bit elements a second. It is
        not measured: cores x elements a vector x 2 for a multiply-add x units a core x a clock of
        6.5 GHz, which no CPU reaches. Programs that are far above it did not do their work (see
        ``schedlang.targets.roofline``); give ``math.inf`` to believe any time.
    l1_bytes, l2_bytes, l3_bytes: data caches as one core sees them; None if unknown.
    cpus: the logical CPUs that threads are bound to, one a core.

    Raises ``TargetError`` for a name that is not in ``NAMES``, and for fewer than one core or a
    negative peak.
    """

    name: str = "cpu"
    cores: int = 0
    mcpu: str = ""
    vector_bits: int = 0
    peak_flops: float = field(default=0.0, compare=False, repr=False)
    kind: str = field(init=False, default="cpu")
    l1_bytes: int | None = field(init=False, compare=False, repr=False)
    l2_bytes: int | None = field(init=False, compare=False, repr=False)
    l3_bytes: int | None = field(init=False, compare=False, repr=False)
    cpus: tuple[int, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.name not in NAMES:
            raise TargetError(f"unknown target {self.name!r}; known: {', '.join(NAMES)}")
        if self.cores < 0:
            raise TargetError(f"target {self.name!r}: cores={self.cores}; give 1 or more")
        if not self.peak_flops >= 0:
            raise TargetError(f"target {self.name!r}: peak_flops={self.peak_flops}; give 0 or more")
        cpus = host.one_cpu_per_core(host.usable_cpus())
        mcpu = self.mcpu or codegen.host_cpu()
        cores = self.cores or len(cpus)
        bits = self.vector_bits or codegen.vector_bits(codegen.llvm_target(mcpu, cores))
        values = {"mcpu": mcpu, "cores": cores, "vector_bits": bits, "cpus": cpus[:cores]}
        values["peak_flops"] = self.peak_flops or _peak_flops(cores, bits)
        for level in (1, 2, 3):
            values[f"l{level}_bytes"] = host.cache_bytes(cpus[0], level)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def from_name(cls, name: str) -> Target:
        """The target called ``name``, of this machine; TargetError lists the names there are."""
        return cls(name)

    @property
    def key(self) -> str:
        """Text that is equal for machines whose records can be exchanged; the same in every run."""
        return f"{self.kind}/{self.mcpu}/cores={self.cores}/vector={self.vector_bits}"

    def tvm_target(self) -> TVMTarget:
        """TVM's target for this machine."""
        return codegen.llvm_target(self.mcpu, self.cores)

    def check_present(self) -> None:
        """TargetError unless this machine can run programs for this target."""
        if self.mcpu != codegen.host_cpu():
            raise TargetError(
                f"target {self.key!r} is a {self.mcpu}, and this machine is a "
                f"{codegen.host_cpu()}: measure on that machine"
            )
        if self.cores > len(self.cpus):
            raise TargetError(
                f"target {self.key!r} wants {self.cores} cores, and this process may use "
                f"{len(self.cpus)}: widen its affinity mask or ask for fewer"
            )


def _peak_flops(cores: int, vector_bits: int) -> float:
    units = _WIDE_UNITS if vector_bits > _NARROW_BITS else _NARROW_UNITS
    return cores * (vector_bits / 32) * 2 * units * _CYCLES


def toolchain_key() -> str:
    """Versions of schedlang and of what generates code: latencies compare between equal ones."""
    try:
        own = metadata.version("schedlang")
    except metadata.PackageNotFoundError:
        own = "source"
    return f"schedlang {own} {codegen.toolchain()}"


def as_target(value: Any) -> Target:
    """The target that ``value`` means: a Target, a name, or one of TVM's targets of kind llvm."""
    if isinstance(value, Target):
        return value
    if isinstance(value, str):
        return Target.from_name(value)
    if codegen.is_tvm_target(value):
        found = codegen.target_attributes(value)
        if found["kind"] != "llvm":
            raise TargetError(
                f"TVM target of kind {found['kind']!r}; only llvm is known, as one of: "
                f"{', '.join(NAMES)}"
            )
        return Target("cpu", cores=found["cores"] or 0, mcpu=found["mcpu"] or "")
    raise TargetError(
        f"{value!r} ({type(value).__name__}) is not a target; give a Target, a TVM target of kind "
        f"llvm, or one of the names: {', '.join(NAMES)}"
    )
