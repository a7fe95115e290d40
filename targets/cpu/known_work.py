"""Work whose time is known, on one core of this CPU: arithmetic, and a read of memory."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from schedlang.targets import host
from schedlang.targets.measure.watching.contention import Contention
from schedlang.targets.measure.watching.known_work import KnownWork, Piece

if TYPE_CHECKING:
    from schedlang.targets.cpu.backend import CPUBackend

# It takes about 20 us, and none of it leaves the first-level cache for long.
_HASHED_BYTES = 16 << 10
# Each look reads the next part of a memory that the last-level cache does not hold.
_READ_BYTES = 1 << 20
_PAGE_BYTES = 4 << 10
_LEAST_BYTES, _MOST_BYTES = 16 << 20, 64 << 20
_TIMES_CACHE = 2
# A clock that falls under load, from that of one core to that of all, is no disturbance; another
# program on the same core makes it take about twice as long.
_SLOWER_HASH = 1.5
# On virtual machines, neighbours that nobody sees use the memory, too.
_SLOWER_READ = 2.0
_PART = 0.01


def cpu_contention(backend: CPUBackend, first_cpu: int) -> Contention:
    """Time programs again while known work takes longer than it ever did.

    Where it stays so, they are disturbed.
    """
    pieces = [
        Piece("arithmetic", hashing(), _SLOWER_HASH),
        Piece("memory", reading(memory_bytes(host.cache_bytes(first_cpu, 3))), _SLOWER_READ),
    ]
    work = KnownWork(pieces, backend.machine, backend.running, confirmed=True, part=_PART)
    return Contention([work])


def hashing() -> Callable[[], float]:
    """Return a function that computes a hash, and returns how long that took, in seconds."""
    data = bytes(_HASHED_BYTES)

    def seconds() -> float:
        start = time.perf_counter()
        hashlib.sha256(data).digest()
        return time.perf_counter() - start

    return seconds


def reading(size: int) -> Callable[[], float]:
    """Return a function that reads the next part of a memory of ``size`` bytes.

    It returns how long that took, in seconds.
    """
    memory = np.zeros(size // 8)
    # What was never written is the same page of zeros everywhere.
    memory[:: _PAGE_BYTES // 8] = 1.0
    parts = memory.reshape(-1, _READ_BYTES // 8)
    last = 0

    def seconds() -> float:
        nonlocal last
        last = (last + 1) % len(parts)
        start = time.perf_counter()
        parts[last].max()
        return time.perf_counter() - start

    return seconds


def memory_bytes(cache: int | None) -> int:
    """Return how many bytes to read in turns; ``cache`` is the size of the last-level cache."""
    wanted = min(max(_TIMES_CACHE * (cache or 0), _LEAST_BYTES), _MOST_BYTES)
    return wanted // _READ_BYTES * _READ_BYTES
