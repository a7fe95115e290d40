"""A table of a CPU target's properties, with the source of each value."""

from __future__ import annotations

from schedlang.targets import host
from schedlang.targets.cpu import features
from schedlang.targets.cpu.availability import missing_features
from schedlang.targets.cpu.machine import CPUMachine

_NUMBERS = ("cores", "vector_bits", "vector_registers")
_SIZES = ("l1_bytes", "l2_bytes", "l3_bytes")
_UNITS = ((1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def describe(target: CPUMachine) -> str:
    """Write the key, then a line for each attribute: name, value and source."""
    rows = [("mcpu", target.mcpu, target.sources["mcpu"])]
    rows += [(key, str(getattr(target, key)), target.sources[key]) for key in _NUMBERS]
    rows += [(key, size(getattr(target, key)), target.sources[key]) for key in _SIZES]
    rows.append(("max_unrolled", str(target.max_unrolled), target.sources["max_unrolled"]))
    rows.append(("peak_flops", f"{target.peak_flops:.2e}", target.sources["peak_flops"]))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [target.key]
    lines += [
        f"  {name:<{widths[0]}}  {value:>{widths[1]}}  {source}" for name, value, source in rows
    ]
    names = " ".join(sorted(target.features & features.KNOWN))
    lines.append(
        f"  {'features':<{widths[0]}}  {names or 'none known'}  ({_says_features(target)})"
    )
    return "\n".join(lines)


def size(count: int) -> str:
    """Write a size in the largest unit that divides it: ``49152 -> "48 KiB"``."""
    unit, name = next((unit, name) for unit, name in _UNITS if count % unit == 0)
    return f"{count // unit} {name}"


def _says_features(target: CPUMachine) -> str:
    says = f"LLVM for {''.join((target.mcpu, *target.attributes))}"
    if missing_features(target) or target.architecture != host.architecture():
        return f"{says}; this machine lacks some"
    confirmed = host.cpu_flags() is not None
    return f"{says}; /proc/cpuinfo has them" if confirmed else f"{says}; no /proc/cpuinfo"
