"""What Linux reports about this machine and its processes: the reader of ``/proc`` and ``/sys``.

Of the machine: cores in the affinity mask, caches, features, memory. Of processes: whose children
they are, what they do, and the processor time that they have used. Small processes import it that
must start at once: it needs the standard library only.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

# -- The machine ----------------------------------------------------------------------------------

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


def cpu_model(root: Path = Path("/")) -> str | None:
    """Return the CPU's model name; None if unknown."""
    text = _text(root / "proc/cpuinfo") or ""
    match = re.search(r"^(?:model name|Hardware|CPU part)\s*:(.*)$", text, re.MULTILINE)
    return match[1].strip() if match else None


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


def cpu_quota(root: Path = Path("/")) -> float | None:
    """Return how many cores a container may use at a time; None without a limit."""
    group = root / "sys/fs/cgroup"
    both = (_text(group / "cpu.max") or "").split()
    if len(both) != 2:
        both = [
            _text(group / "cpu" / name) or "" for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        ]
    if not (both[0].isdigit() and both[1].isdigit() and int(both[1])):
        return None
    return int(both[0]) / int(both[1])


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="surrogateescape").strip()
    except OSError:
        return None


# -- Processor time of its cores ------------------------------------------------------------------

PROCESSES = Path("/proc")
THREADS = PROCESSES / "self/task"
"""Has a folder for each thread of this process, as ``PROCESSES`` has one for each process."""


class CoreTicks(NamedTuple):
    """Ticks of cores since the system started: running programs, idle, and taken by the host."""

    busy: int
    idle: int
    stolen: int


def core_ticks(cpus: Collection[int], root: Path = PROCESSES) -> CoreTicks | None:
    """Return the ticks of some cores, all together; None where the system does not tell."""
    names = {f"cpu{cpu}" for cpu in cpus}
    found = []
    for line in (_text(root / "stat") or "").splitlines():
        name, *numbers = line.split()
        if name in names:
            user, nice, system, idle, wait, hard, soft, stolen = map(int, numbers[:8])
            found.append((user + nice + system + hard + soft, idle + wait, stolen))
    return CoreTicks(*map(sum, zip(*found, strict=True))) if len(found) == len(names) else None


# -- Processes and threads ------------------------------------------------------------------------


class ProcessStat(NamedTuple):
    """What the system says of a process, or of a thread.

    Attributes
    ----------
    state: a letter: ``R`` where it runs, ``Z`` or ``X`` where it has ended.
    parent: number of its parent.
    ticks: processor time that it and its ended children used, in the system's ticks.
    started: when it started, in ticks, as text.
    """

    state: str
    parent: int
    ticks: int
    started: str

    @property
    def processor_seconds(self) -> float:
        """Processor time that it and its ended children used."""
        return self.ticks / os.sysconf("SC_CLK_TCK")


def process_stat(number: int, root: Path = PROCESSES) -> ProcessStat | None:
    """Read about a process; None where it has ended, or the system does not tell."""
    try:
        with open(f"{root}/{number}/stat", "rb") as file:
            text = file.read()
        # The name in parentheses may hold anything; the state is the first field after it.
        fields = text.rpartition(b")")[2].split()
        ticks = sum(map(int, fields[11:15]))
        return ProcessStat(fields[0].decode(), int(fields[1]), ticks, fields[19].decode())
    except (OSError, ValueError, IndexError):
        return None


def processes(root: Path = PROCESSES) -> Iterator[tuple[int, ProcessStat]]:
    """Yield the number of each process, or thread, and what the system says of it."""
    try:
        names = os.listdir(root)
    except OSError:
        return
    for name in names:
        # It may end meanwhile.
        if name.isdigit() and (stat := process_stat(int(name), root)) is not None:
            yield int(name), stat


def children_of(parent: int) -> set[int]:
    """Return the child processes of ``parent``, those included that ended and were not reaped.

    Empty where the system does not tell.
    """
    return {number for number, stat in processes() if stat.parent == parent}


def descendants(parent: int) -> list[int]:
    """Return the processes below ``parent``: a program can put them into groups of their own."""
    found: list[int] = []
    pending = [parent]
    while pending:
        below = children_of(pending.pop())
        found += below
        pending += below
    return found


def own_status() -> dict[str, str]:
    """Return the lines of ``/proc/self/status`` by their names; empty where there is none."""
    lines = own_file("status").split("\n")
    return {name: value for name, _, value in (line.partition(":") for line in lines)}


def own_file(name: str) -> str:
    """Return what a file of ``/proc/self`` holds; empty where there is none."""
    try:
        with open(f"{PROCESSES}/self/{name}", "rb", buffering=0) as file:
            return file.read().decode(errors="surrogateescape")
    except OSError:
        return ""
