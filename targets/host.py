"""What Linux reports about this machine: cores in the affinity mask, caches, features, memory."""

from __future__ import annotations

import os
import platform
import re
from dataclasses import dataclass
from pathlib import Path

CPU_ROOT = Path("/sys/devices/system/cpu")
_UNITS = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
# Other systems' names of the architectures that Linux calls x86_64 and aarch64.
_ARCHITECTURES = {"AMD64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache that a CPU uses.

    Attributes
    ----------
    bytes: size in bytes; None if unknown.
    shared_by: the CPUs that use it, as Linux lists them; None if unknown.
    place: the folder under ``/sys`` that describes it.
    """

    bytes: int | None
    shared_by: str | None
    place: Path


def architecture() -> str:
    """Return the architecture of this machine, as Linux calls it: ``"x86_64"``, ``"aarch64"``."""
    name = platform.machine()
    return _ARCHITECTURES.get(name, name)


def usable_cpus() -> tuple[int, ...]:
    """Return the logical CPUs that this process may use, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def one_cpu_per_core(cpus: tuple[int, ...], root: Path = CPU_ROOT) -> tuple[int, ...]:
    """Return the first of ``cpus`` on each physical core, ascending.

    A CPU whose topology is unknown counts as a core of its own.
    """
    seen: set[object] = set()
    chosen = []
    for cpu in cpus:
        topology = root / f"cpu{cpu}" / "topology"
        package, core = _text(topology / "physical_package_id"), _text(topology / "core_id")
        # Core ids repeat between dies and clusters of some machines; the list of siblings does not.
        siblings = _text(topology / "thread_siblings_list")
        identity: object = siblings or ((package, core) if core is not None else cpu)
        if identity not in seen:
            seen.add(identity)
            chosen.append(cpu)
    return tuple(chosen)


def find_cache(
    cpu: int, level: int, root: Path = CPU_ROOT, *, instructions: bool = False
) -> Cache | None:
    """Return the cache of ``level`` that ``cpu`` uses; None if unknown.

    It is the data cache, or with ``instructions`` the instruction cache. A unified cache is both.
    """
    other = "Data" if instructions else "Instruction"
    for index in sorted((root / f"cpu{cpu}" / "cache").glob("index*")):
        if _text(index / "level") == str(level) and _text(index / "type") != other:
            match = re.fullmatch(r"(\d+)([KMG]?)", _text(index / "size") or "")
            size = int(match[1]) * _UNITS[match[2]] if match else None
            return Cache(size, _text(index / "shared_cpu_list"), index)
    return None


def cache_bytes(cpu: int, level: int, root: Path = CPU_ROOT) -> int | None:
    """Return the bytes of the data (or unified) cache of ``level`` of ``cpu``; None if unknown."""
    found = find_cache(cpu, level, root)
    return found.bytes if found else None


def shares_cache(cpu: int, level: int, root: Path = CPU_ROOT) -> str | None:
    """Return the CPUs that share a cache of ``level`` with ``cpu``, as Linux lists them.

    None if unknown.
    """
    found = find_cache(cpu, level, root)
    return found.shared_by if found else None


def cpu_flags(root: Path = Path("/")) -> frozenset[str] | None:
    """Return the kernel's names of the features that programs may use; None if unknown.

    They are those of the first CPU in ``/proc/cpuinfo``.
    """
    text = _text(root / "proc/cpuinfo") or ""
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    return frozenset(match[1].split()) if match else None


def sve_bits(root: Path = Path("/")) -> int | None:
    """Return the default length of SVE registers in bits; None where there are none."""
    text = _text(root / "proc/sys/abi/sve_default_vector_length") or ""
    return 8 * int(text) if text.isdigit() else None


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that new processes may allocate; None if unknown.

    The limit is the system's free memory or that of the control group, whichever is lower.
    """
    found = []
    meminfo = _text(root / "proc/meminfo") or ""
    if match := re.search(r"^MemAvailable:\s*(\d+) kB$", meminfo, re.MULTILINE):
        found.append(int(match[1]) * 1024)
    group = root / "sys/fs/cgroup"
    for limit, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        most, now = _text(group / limit), _text(group / used)
        if most is not None and now is not None and most.isdigit() and now.isdigit():
            found.append(max(int(most) - int(now), 0))
    return min(found, default=None)


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None
