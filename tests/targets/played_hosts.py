"""Hosts that a test plays: what Linux and LLVM tell of the machine is what they tell of another.

No code runs on a played host: it may have instructions that this machine lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from schedlang import host
from schedlang.targets.cpu import features, resolve
from schedlang.targets.cpu.features import NAMED
from schedlang.tvm import codegen

_TRIPLES = {entry.architecture: entry.triple for entry in NAMED.values()}
_find_cache = host.find_cache
_OF_A_TRIPLE = ("is_cpu", "cpu_names", "cpu_features", "vector_bits", "llvm_target")


@dataclass(frozen=True)
class PlayedHost:
    """A machine that a test plays.

    Attributes
    ----------
    mcpu: LLVM's name of its CPU.
    cores: number of its cores, each with one hardware thread.
    architecture: as ``host.architecture`` tells it.
    denied: features of the CPU that its kernel does not list.
    l2_bytes: size of the cache of the second level.
    sve_bits: width of its SVE registers; None without them.
    """

    mcpu: str
    cores: int
    architecture: str = "x86_64"
    denied: tuple[str, ...] = ()
    l2_bytes: int = 1 << 20
    sve_bits: int | None = None

    def flags(self) -> frozenset[str]:
        """Return the kernel's names of its features."""
        names = features._KERNEL_NAMES[self.architecture]
        has = codegen.cpu_features(self.mcpu, _TRIPLES[self.architecture])
        return frozenset(flag for one, flag in names.items() if one in has - {*self.denied})

    def find_cache(
        self, cpu: int, level: int, root: Path = host.CPU_ROOT, **which: bool
    ) -> host.Cache | None:
        """Return the cache of a level; under another ``root`` what is really there."""
        if root is not host.CPU_ROOT:
            return _find_cache(cpu, level, root, **which)
        return host.Cache((32 << 10, self.l2_bytes, 16 << 20)[level - 1], None, host.CPU_ROOT)


HOSTS = {
    "sse": PlayedHost("nehalem", 4, l2_bytes=256 << 10),
    "avx2": PlayedHost("znver1", 2, l2_bytes=512 << 10),
    "avx512": PlayedHost("znver4", 8),
    "avx512_vp2intersect": PlayedHost("znver5", 2),
    "masked": PlayedHost("znver4", 8, denied=("avx512bf16", "avx512vnni")),
    "amx": PlayedHost("sapphirerapids", 16, l2_bytes=2 << 20),
    "one core": PlayedHost("skylake-avx512", 1),
    "64 cores": PlayedHost("znver4", 64),
    "aarch64": PlayedHost("neoverse-n1", 4, "aarch64"),
    "aarch64 with SVE": PlayedHost("neoverse-v1", 64, "aarch64", sve_bits=256),
}


@contextmanager
def playing(played: PlayedHost) -> Iterator[None]:
    """Play a host in the block. TVM itself, and processes that are started, see the real one."""
    own = _TRIPLES[played.architecture]
    told: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (host, "architecture", lambda: played.architecture),
        (host, "usable_cpus", lambda: tuple(range(played.cores))),
        (host, "one_cpu_per_core", lambda cpus: cpus),
        (host, "cpu_flags", played.flags),
        (host, "find_cache", played.find_cache),
        (host, "sve_bits", lambda: played.sve_bits),
        (codegen, "host_cpu", lambda: played.mcpu),
        (codegen, "host_triple", lambda: own),
        (features, "host_attributes", cache(features.host_attributes.__wrapped__)),
        (features, "host_features", cache(features.host_features.__wrapped__)),
        (resolve, "cpus_to_use", cache(resolve.cpus_to_use.__wrapped__)),
        (resolve, "_caches_of", cache(resolve._caches_of.__wrapped__)),
        *((codegen, one, partial(_of_own, own, getattr(codegen, one))) for one in _OF_A_TRIPLE),
    )
    with pytest.MonkeyPatch.context() as patch:
        for module, name, function in told:
            patch.setattr(module, name, function)
        yield


def _of_own(own: str, ask: Callable[..., Any], *values: Any, **options: Any) -> Any:
    """Ask LLVM; where no triple is given, about the played host."""
    told = signature(ask).bind(*values, **options)
    told.arguments["triple"] = told.arguments.get("triple") or own
    return ask(*told.args, **told.kwargs)
