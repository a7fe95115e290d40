from __future__ import annotations

import os

import numpy as np
import pytest

from schedlang.targets import Target, cache, host

MIB = 1 << 20


def plan(
    monkeypatch: pytest.MonkeyPatch, sizes: dict[int, int | None], groups: dict[int, str | None]
) -> list[tuple[int, int]]:
    """The plan for CPUs 0, 1 and 2 with these caches by level, and these groups by CPU."""
    monkeypatch.setattr(host, "cache_bytes", lambda cpu, level: sizes[level])
    monkeypatch.setattr(host, "shares_cache", lambda cpu, level: groups[cpu])
    return cache.flush_plan((0, 1, 2))


def test_a_shared_cache_is_emptied_once_and_the_first_cpu_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: dict[int, int | None] = {2: MIB, 3: 32 * MIB}
    found = plan(monkeypatch, sizes, {0: "0-1", 1: "0-1", 2: "2"})
    assert found == [(2, 64 * MIB), (1, 2 * MIB), (0, 64 * MIB)]


def test_a_machine_that_does_not_say_is_taken_for_large(monkeypatch: pytest.MonkeyPatch) -> None:
    found = plan(monkeypatch, {2: None, 3: None}, dict.fromkeys(range(3)))
    assert [cpu for cpu, _ in found] == [2, 1, 0]
    assert found[-1][1] >= 64 * MIB and min(size for _, size in found) >= 2 * MIB


def test_flushing_writes_all_of_it_and_keeps_the_affinity() -> None:
    mask = os.sched_getaffinity(0)
    flusher = cache.CacheFlusher(Target("cpu").cpus)
    flusher.flush()
    assert os.sched_getaffinity(0) == mask
    largest = max(size for _, size in flusher.plan)
    assert len(flusher._bytes) == largest and np.all(flusher._bytes > 0)
