"""Limits of a machine that shape its programs (cores, caches, unrolling), each with its source."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from schedlang.targets import host
from schedlang.targets.cpu.named import NAMED, CacheSizes

_DEFAULT_CORES = 4
# Instructions with vector operands and an address take 6 to 9 bytes on x86, and 4 on aarch64.
_BYTES_OF_INSTRUCTION = 8
_CODE = "8 bytes an instruction"


class Fact(NamedTuple):
    """A number and its source."""

    value: int
    source: str


Facts = dict[str, Fact]


@cache
def cpus_to_use(usable: tuple[int, ...]) -> tuple[int, ...]:
    """Return one of the ``usable`` logical CPUs for each physical core."""
    return host.one_cpu_per_core(usable)


def limits_here(cpus: tuple[int, ...], assumed: Facts) -> Facts:
    """Return cores and caches of this machine; ``assumed`` gives unreported values."""
    listed = ", ".join(map(str, cpus)) if len(cpus) <= 8 else f"{cpus[0]} ... {cpus[-1]}"
    cores = Fact(len(cpus), f"affinity mask, one CPU a core ({listed})")
    return {**assumed, **_caches_of(cpus[0]), "cores": cores}


@cache
def limits_elsewhere(architecture: str, features: frozenset[str]) -> Facts:
    """Return cores and caches to assume for another machine.

    They come from the last named target whose features the machine has.
    """
    fitting = [
        entry
        for entry in NAMED.values()
        if entry.architecture == architecture and features.issuperset(entry.requires)
    ]
    caches, like = CacheSizes(), "of another machine"
    if fitting:
        caches, like = fitting[-1].caches, f"as for {fitting[-1].name}"
    facts = {
        f"l{level}_bytes": Fact(size, f"default, {like}")
        for level, size in enumerate((caches.l1, caches.l2, caches.l3), start=1)
    }
    unrolled = Fact(caches.instructions // _BYTES_OF_INSTRUCTION, f"default, {like}")
    cores = Fact(_DEFAULT_CORES, "default: the machine is another one")
    return {"cores": cores, **facts, "max_unrolled": unrolled}


@cache
def _caches_of(cpu: int) -> Facts:
    facts: Facts = {}
    below: Fact | None = None
    for level in (1, 2, 3):
        found = host.find_cache(cpu, level)
        if found is not None and found.bytes:
            below = Fact(found.bytes, str(found.place))
        elif below is not None:
            # The machine has no such level: what lies beyond the one before is memory.
            below = Fact(below.value, f"no cache of level {level}: as the one before")
        if below is not None:
            facts[f"l{level}_bytes"] = below
    code = host.find_cache(cpu, 1, instructions=True)
    if code is not None and code.bytes:
        most = code.bytes // _BYTES_OF_INSTRUCTION
        facts["max_unrolled"] = Fact(most, f"{code.place}, {_CODE}")
    return facts
