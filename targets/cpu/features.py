"""Instruction sets of CPUs: features by LLVM's names, and the named targets made of them.

LLVM knows this machine by the name of its CPU. A hypervisor or the kernel may have disabled
features that CPUs of this name have; code that uses them crashes. So ``host_features`` leaves
out those that the kernel does not list.

Code for a named target (``NAMED``) runs on every CPU that has its instructions. Its row also has
the caches to assume where the machine is not here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from schedlang import host
from schedlang.tvm import codegen

# -- Features: LLVM's list for a CPU, and those that this kernel confirms -------------------------

# LLVM's name -> the kernel's name, for the features that a compiler or one of our modules may use.
_X86 = {
    "sse4.2": "sse4_2",
    "avx": "avx",
    "avx2": "avx2",
    "fma": "fma",
    "f16c": "f16c",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "lzcnt": "abm",
    "movbe": "movbe",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "avx512vp2intersect": "avx512_vp2intersect",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avxvnni": "avx_vnni",
    "amx-tile": "amx_tile",
    "amx-int8": "amx_int8",
    "amx-bf16": "amx_bf16",
}
_AARCH64 = {
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "dotprod": "asimddp",
    "i8mm": "i8mm",
    "bf16": "bf16",
    "sve": "sve",
    "sve2": "sve2",
    "sme": "sme",
}
_KERNEL_NAMES = {"x86_64": _X86, "aarch64": _AARCH64}
KNOWN = frozenset({**_X86, **_AARCH64})


def features_of(mcpu: str, triple: str = "", attributes: tuple[str, ...] = ()) -> frozenset[str]:
    """Return all features that LLVM may use for a CPU; empty if LLVM does not know the CPU."""
    return codegen.cpu_features(mcpu, triple, attributes)


@cache
def host_features() -> frozenset[str]:
    """Return the features of this machine: LLVM's, without those that the kernel does not list."""
    return features_of(codegen.host_cpu(), "", host_attributes())


@cache
def host_attributes() -> tuple[str, ...]:
    """Return LLVM's options besides the CPU's name, such as ``("-avx512vnni",)``."""
    flags = host.cpu_flags()
    if flags is None:
        return ()
    return denied(features_of(codegen.host_cpu()), flags, host.architecture())


def denied(features: frozenset[str], flags: frozenset[str], architecture: str) -> tuple[str, ...]:
    """Return LLVM attributes that remove the ``features`` missing from the kernel's ``flags``."""
    names = _KERNEL_NAMES.get(architecture, {})
    return tuple(f"-{f}" for f, flag in names.items() if f in features and flag not in flags)


def needed(attributes: tuple[str, ...]) -> tuple[str, ...]:
    """Return the features that LLVM attributes add: ``("+sve", "-sme") -> ("sve",)``."""
    return tuple(text[1:] for text in attributes if text.startswith("+"))


def vector_bits(
    architecture: str, features: frozenset[str], *, here: bool
) -> tuple[int, str] | None:
    """Return the guaranteed vector width in bits and its source; None if unknown.

    TVM's own figure is 512 for every x86 CPU, and 128 with SVE, whose registers may be wider.
    """
    if architecture == "x86_64":
        for feature, bits in (("avx512f", 512), ("avx", 256)):
            if feature in features:
                return bits, f"feature {feature}"
        return 128, "the least of x86_64 (SSE)"
    if architecture == "aarch64":
        if "sve" not in features:
            return 128, "NEON"
        length = host.sve_bits() if here else None
        if length:
            return length, "/proc/sys/abi/sve_default_vector_length"
        return 128, "the least of SVE"
    return None


def vector_registers(architecture: str, features: frozenset[str]) -> tuple[int, str]:
    """Return the number of vector registers that a program can name, and its source."""
    if architecture == "x86_64":
        return (32, "feature avx512f") if "avx512f" in features else (16, "no avx512f")
    if architecture == "aarch64":
        return 32, "aarch64"
    return 16, "default: unknown architecture"


# -- Named targets: instruction sets, and the caches to assume ------------------------------------

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
