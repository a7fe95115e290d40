"""CPU features by LLVM's names: LLVM's list for a CPU, and those that this kernel confirms.

LLVM knows this machine by the name of its CPU. A hypervisor or the kernel may have disabled
features that CPUs of this name have; code that uses them crashes.
"""

from __future__ import annotations

from functools import cache

from schedlang.targets import host
from schedlang.tvm import codegen

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
