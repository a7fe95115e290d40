from __future__ import annotations

import pytest

from schedlang import host
from schedlang.targets import Target
from schedlang.targets.cpu import backend

MIB = 1 << 20


def planned(
    monkeypatch: pytest.MonkeyPatch, sizes: dict[int, int | None], groups: dict[int, str | None]
) -> int:
    """The bytes for each CPU, with these caches by level and these groups by CPU."""
    monkeypatch.setattr(host, "cache_bytes", lambda cpu, level: sizes[level])
    monkeypatch.setattr(host, "shares_cache", lambda cpu, level: groups[cpu])
    return backend.sweep_bytes(sorted(groups))


def test_those_that_share_a_cache_empty_it_together(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[int, int | None] = {2: MIB, 3: 32 * MIB}
    assert planned(monkeypatch, sizes, {0: "0-1", 1: "0-1"}) == 2 * 16 * MIB
    assert planned(monkeypatch, sizes, {0: "0-1", 1: "0-1", 2: "2"}) == 2 * 32 * MIB
    # Each has a cache of its own too.
    assert planned(monkeypatch, sizes, dict.fromkeys(range(64), "0-63")) == 2 * MIB


def test_a_machine_that_does_not_say_is_taken_for_large(monkeypatch: pytest.MonkeyPatch) -> None:
    assert planned(monkeypatch, {2: None, 3: None}, {0: None}) >= 2 * 64 * MIB
    assert planned(monkeypatch, {2: None, 3: None}, dict.fromkeys(range(256))) >= 2 * 2 * MIB


def test_flushing_writes_all_of_it_on_every_cpu() -> None:
    target = Target("cpu")
    flusher = backend.CacheFlusher(target.cpus, target.tvm_target())
    before = flusher.memory.numpy()
    assert before.shape[0] == target.cores
    assert before.nbytes == target.cores * backend.sweep_bytes(target.cpus)
    flusher.flush()
    assert (flusher.memory.numpy() == before + 1).all()
