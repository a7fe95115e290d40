"""Work whose time is known, on one core of this CPU: arithmetic, and a read of memory."""

from __future__ import annotations

import hashlib
import mmap
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from schedlang.targets import host
from schedlang.targets.measure.watching.contention import Contention
from schedlang.targets.measure.watching.known_work import KnownWork, Piece
from schedlang.tvm.codegen.runtime import largest_library

if TYPE_CHECKING:
    from schedlang.targets.cpu.backend import CPUBackend

# It takes about 20 us, and none of it leaves the first-level cache for long.
_HASHED_BYTES = 16 << 10
# Each look reads the next part of a memory that the last-level cache does not hold.
_READ_BYTES = 1 << 20
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
    pieces = [Piece("arithmetic", hashing(), _SLOWER_HASH)]
    with suppress(OSError):  # a TVM that keeps its libraries elsewhere
        read = reading(memory(host.cache_bytes(first_cpu, 3)))
        pieces.append(Piece("memory", read, _SLOWER_READ))
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


def reading(memory: mmap.mmap) -> Callable[[], float]:
    """Return a function that reads the next part of ``memory``, a MiB.

    It returns how long that took, in seconds.
    """
    parts = np.frombuffer(memory, np.uint64).reshape(-1, _READ_BYTES // 8)
    last = 0

    def seconds() -> float:
        nonlocal last
        last = (last + 1) % len(parts)
        start = time.perf_counter()
        parts[last].max()
        return time.perf_counter() - start

    return seconds


def memory(cache: int | None) -> mmap.mmap:
    """Return memory to read in turns; ``cache`` is the size of the last-level cache in bytes.

    It is that of a file which each worker has open: TVM's compiler. So it exists once, however many
    workers there are. OSError where it is not found.
    """
    file = largest_library()
    wanted = min(max(_TIMES_CACHE * (cache or 0), _LEAST_BYTES), _MOST_BYTES, file.stat().st_size)
    size = max(wanted // _READ_BYTES, 1) * _READ_BYTES
    with file.open("rb") as opened:
        flags = mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0)
        return mmap.mmap(opened.fileno(), size, flags, mmap.PROT_READ)
