"""What each compute capability guarantees: the tables of the CUDA C++ programming guide.

Its section "Compute Capabilities", tables "Technical Specifications per Compute Capability" and
"Throughput of Native Arithmetic Instructions"; for matrix units, NVIDIA's white papers of V100,
T4, A100, GA102, AD102, H100 and Blackwell.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from schedlang.errors import TargetError

_KIB = 1 << 10
WARP_SIZE = 32
MAX_THREADS_PER_BLOCK = 1024
REGISTERS = 64 * _KIB
"""32-bit registers of a multiprocessor; one block may take them all."""
MAX_REGISTERS_PER_THREAD = 255
STATIC_SHARED_BYTES = 48 * _KIB
"""Shared memory that a block may declare statically; more is dynamic, and asked for at launch."""
_FIRST_WITH_OWN_FEATURES = (9, 0)
_FIRST_WITH_FAMILIES = (10, 0)


@dataclass(frozen=True, slots=True)
class Architecture:
    """Limits and rates of a multiprocessor (SM) of one compute capability.

    Attributes
    ----------
    capability: major and minor number.
    max_threads_per_sm, max_blocks_per_sm: what can be resident at a time.
    shared_bytes_per_sm: shared memory in bytes.
    shared_bytes_optin: the largest shared memory of one block in bytes, if it is dynamic.
    reserved_shared_bytes: bytes of shared memory that the system takes for each block.
    float32_lanes: multiply-adds of float32 a clock.
    matrix_flops: operations of its matrix units a clock: float16, dense, at their fastest.
    model: the GPU, of ``schedlang.targets.cuda.named``, whose numbers to assume.
    """

    capability: tuple[int, int]
    max_threads_per_sm: int
    max_blocks_per_sm: int
    shared_bytes_per_sm: int
    shared_bytes_optin: int
    reserved_shared_bytes: int
    float32_lanes: int
    matrix_flops: int
    model: str


def _architecture(
    capability: tuple[int, int],
    threads: int,
    blocks: int,
    shared_kib: tuple[int, int],
    rates: tuple[int, int],
    model: str,
) -> Architecture:
    per_sm, per_block = (_KIB * number for number in shared_kib)
    reserved = _KIB if capability >= (8, 0) else 0
    return Architecture(capability, threads, blocks, per_sm, per_block, reserved, *rates, model)


_TABLE = (
    _architecture((7, 0), 2048, 32, (96, 96), (64, 1024), "v100"),
    _architecture((7, 5), 1024, 16, (64, 64), (64, 1024), "t4"),
    _architecture((8, 0), 2048, 32, (164, 163), (64, 2048), "a100"),
    _architecture((8, 6), 1536, 16, (100, 99), (128, 1024), "a10"),
    _architecture((8, 7), 1536, 16, (164, 163), (128, 2048), "orin"),
    _architecture((8, 9), 1536, 24, (100, 99), (128, 1024), "l40s"),
    _architecture((9, 0), 2048, 32, (228, 227), (128, 4096), "h100"),
    _architecture((10, 0), 2048, 32, (228, 227), (128, 8192), "b200"),
    _architecture((10, 3), 2048, 32, (228, 227), (128, 8192), "b200"),
    _architecture((12, 0), 1536, 24, (100, 99), (128, 1024), "rtx-5090"),
    _architecture((12, 1), 1536, 24, (100, 99), (128, 1024), "gb10"),
)
ARCHITECTURES = {entry.capability: entry for entry in _TABLE}


def arch_of(capability: tuple[int, int]) -> str:
    """Return the architecture with all that a GPU of this capability has, such as ``"sm_80"``.

    The suffix of ``"sm_90a"`` adds what only this very capability has, such as wgmma.
    """
    suffix = "a" if capability >= _FIRST_WITH_OWN_FEATURES else ""
    return f"sm_{capability[0]}{capability[1]}{suffix}"


def architecture_of(arch: str) -> Architecture:
    """Return the entry of ``"sm_90"``; TargetError lists those there are.

    From sm_90 on there is also ``"sm_90a"``, and from sm_100 on ``"sm_100f"``.
    """
    match = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch) if isinstance(arch, str) else None
    if match is not None:
        capability = int(match[1]), int(match[2])
        least = {"": (0, 0), "a": _FIRST_WITH_OWN_FEATURES, "f": _FIRST_WITH_FAMILIES}[match[3]]
        if capability in ARCHITECTURES and capability >= least:
            return ARCHITECTURES[capability]
    raise TargetError(
        f"target 'cuda': arch={arch!r} is not known; give one of {', '.join(ARCHES)}, or a letter "
        "more for what only one capability has, such as 'sm_90a'"
    )


ARCHES = tuple(f"sm_{major}{minor}" for major, minor in ARCHITECTURES)
"""The architectures without a suffix: ``"sm_70"``, ..., ``"sm_121"``."""
