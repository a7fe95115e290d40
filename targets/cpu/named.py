"""Named CPU targets: instruction sets, and the caches to assume where the machine is not here.

Code for a named target runs on every CPU that has its instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

HOST = "cpu"
# LLVM's name of a CPU that has only the instructions common to its architecture.
GENERIC = "generic"
_KIB, _MIB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class CacheSizes:
    """Bytes of the data caches by level, as one core sees them, and of the instruction cache."""

    l1: int = 32 * _KIB
    l2: int = 256 * _KIB
    l3: int = 8 * _MIB
    instructions: int = 32 * _KIB


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """An instruction set.

    Attributes
    ----------
    name: what users write, such as ``"x86/avx2"``; the part behind the slash is enough.
    architecture: the architecture of the machines that run it, as ``platform.machine()`` says it.
    triple: LLVM's triple for Linux on that architecture.
    mcpu, attributes: the CPU that LLVM generates code for, and features beyond those of the CPU.
    requires: LLVM's names of the features that a machine needs to run the code.
    caches: sizes to assume where the machine is not this one, taken from a common machine that
        has the instructions; docs/targets.md names it.
    """

    name: str
    architecture: str
    triple: str
    mcpu: str
    attributes: tuple[str, ...]
    requires: tuple[str, ...]
    caches: CacheSizes


# The level x86-64-v3 of the x86-64 ABI, as far as a compiler uses it unasked; v4 adds five more.
_AVX2 = ("avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe")
_AVX512 = (*_AVX2, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")


def _x86(
    name: str,
    mcpu: str,
    attributes: tuple[str, ...],
    requires: tuple[str, ...],
    caches: CacheSizes,
) -> NamedTarget:
    triple = "x86_64-unknown-linux-gnu"
    return NamedTarget(f"x86/{name}", "x86_64", triple, mcpu, attributes, requires, caches)


def _aarch64(name: str, attributes: tuple[str, ...], caches: CacheSizes) -> NamedTarget:
    requires = tuple(attribute.removeprefix("+") for attribute in attributes)
    triple = "aarch64-unknown-linux-gnu"
    return NamedTarget(f"aarch64/{name}", "aarch64", triple, GENERIC, attributes, requires, caches)


# Skylake (client), Skylake-SP, Cortex-A76 and Neoverse N1 / V1.
_CLIENT = CacheSizes()
_SERVER = CacheSizes(32 * _KIB, 1 * _MIB, 16 * _MIB)
_CORTEX = CacheSizes(64 * _KIB, 512 * _KIB, 4 * _MIB, instructions=64 * _KIB)
_NEOVERSE = CacheSizes(64 * _KIB, 1 * _MIB, 32 * _MIB, instructions=64 * _KIB)

_VNNI, _BF16 = "avx512vnni", "avx512bf16"
_TABLE = (
    _x86("avx2", "x86-64-v3", (), _AVX2, _CLIENT),
    _x86("avx512", "x86-64-v4", (), _AVX512, _SERVER),
    _x86("avx512_vnni", "x86-64-v4", (f"+{_VNNI}",), (*_AVX512, _VNNI), _SERVER),
    _x86(
        "avx512_bf16",
        "x86-64-v4",
        (f"+{_VNNI}", f"+{_BF16}"),
        (*_AVX512, _VNNI, _BF16),
        _SERVER,
    ),
    _aarch64("neon", ("+neon",), _CORTEX),
    _aarch64("dotprod", ("+neon", "+dotprod"), _NEOVERSE),
    _aarch64("sve", ("+neon", "+dotprod", "+sve"), _NEOVERSE),
)
NAMED = {entry.name: entry for entry in _TABLE}
NAMES = (HOST, *NAMED)


def find_named(
    architecture: str, mcpu: str | None, attributes: tuple[str, ...]
) -> NamedTarget | None:
    """Return the named target for which LLVM gets these options; None if there is none."""
    for entry in _TABLE:
        if (entry.architecture, entry.mcpu, entry.attributes) == (architecture, mcpu, attributes):
            return entry
    return None
