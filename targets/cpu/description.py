"""A table of a CPU target's properties, with the source of each value."""

from __future__ import annotations

from schedlang.targets import host
from schedlang.targets.cpu import features
from schedlang.targets.cpu.availability import missing_features
from schedlang.targets.cpu.machine import CPUMachine
from schedlang.targets.description import size, table

_NUMBERS = ("cores", "vector_bits", "vector_registers")
_SIZES = ("l1_bytes", "l2_bytes", "l3_bytes")


def describe(target: CPUMachine) -> str:
    """Write the key, then a line for each attribute: name, value and source."""
    values = {"mcpu": target.mcpu}
    values |= {key: str(getattr(target, key)) for key in _NUMBERS}
    values |= {key: size(getattr(target, key)) for key in _SIZES}
    values["max_unrolled"] = str(target.max_unrolled)
    values["peak_flops"] = f"{target.peak_flops:.2e}"
    names = " ".join(sorted(target.features & features.KNOWN))
    last = ("features", names or "none known", f"({_says_features(target)})")
    return table(target.key, values, target.sources, last)


def _says_features(target: CPUMachine) -> str:
    says = f"LLVM for {''.join((target.mcpu, *target.attributes))}"
    if missing_features(target) or target.architecture != host.architecture():
        return f"{says}; this machine lacks some"
    confirmed = host.cpu_flags() is not None
    return f"{says}; /proc/cpuinfo has them" if confirmed else f"{says}; no /proc/cpuinfo"
