"""Emptying the CPU's caches, so that a program is timed on data that comes from main memory."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from schedlang.targets import host

# For machines that do not say: as large as the private and the shared caches of most.
_PRIVATE_BYTES = 2 << 20
_SHARED_BYTES = 64 << 20
# A cache keeps some of what it held until clearly more than its size has gone through it.
_TIMES = 2


class CacheFlusher:
    """Evicts what the caches of ``cpus`` hold by writing more than fits, from each of them in turn.

    The caller's affinity must be its own to change; it is as before afterwards. Takes about 10 ms
    for 32 MiB of cache.
    """

    def __init__(self, cpus: Sequence[int]) -> None:
        self.plan = flush_plan(cpus)
        self._bytes = np.zeros(max(size for _, size in self.plan), np.uint8)

    def flush(self) -> None:
        """Empty the caches."""
        mask = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
        try:
            for cpu, size in self.plan:
                if mask is not None:
                    os.sched_setaffinity(0, {cpu})
                self._bytes[:size] += 1
        finally:
            if mask is not None:
                os.sched_setaffinity(0, mask)


def flush_plan(cpus: Sequence[int]) -> list[tuple[int, int]]:
    """How many bytes to write on each CPU, the first of ``cpus`` last: it runs the program.

    The first CPU of each group that shares a last-level cache empties that one, the others only
    what they have to themselves.
    """
    plan = []
    seen: set[str] = set()
    for cpu in cpus:
        private = host.cache_bytes(cpu, 2) or _PRIVATE_BYTES
        group = host.shares_cache(cpu, 3) or "all"
        size = private if group in seen else host.cache_bytes(cpu, 3) or _SHARED_BYTES
        seen.add(group)
        plan.append((cpu, _TIMES * max(size, private)))
    return plan[::-1]
