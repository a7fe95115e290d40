from __future__ import annotations

from pathlib import Path

import pytest

from schedlang import host
from schedlang.targets import Target
from schedlang.targets.cpu import features, resolve
from schedlang.targets.cpu.resolve import Fact


def _cache(root: Path, cpu: int, index: int, level: str, kind: str, size: str) -> Path:
    folder = root / f"cpu{cpu}" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, value in {"level": level, "type": kind, "size": size}.items():
        (folder / name).write_text(value + "\n")
    return folder


def test_the_cache_of_instructions(tmp_path: Path) -> None:
    _cache(tmp_path, 0, 0, "1", "Data", "48K")
    place = _cache(tmp_path, 0, 1, "1", "Instruction", "32K")
    found = host.find_cache(0, 1, tmp_path, instructions=True)
    assert found is not None and (found.bytes, found.place) == (32 << 10, place)
    assert found.shared_by is None
    assert host.find_cache(0, 2, tmp_path, instructions=True) is None


def test_the_length_of_sve_counts_only_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "sve_bits", lambda: 256)
    has = frozenset({"neon", "sve"})
    assert features.vector_bits("aarch64", has, here=True) == (
        256,
        "/proc/sys/abi/sve_default_vector_length",
    )
    assert features.vector_bits("aarch64", has, here=False) == (128, "the least of SVE")
    assert features.vector_bits("aarch64", frozenset({"neon"}), here=True) == (128, "NEON")
    assert features.vector_bits("riscv64", frozenset(), here=False) is None


def test_vectors_and_their_registers_come_from_features() -> None:
    sse, avx = frozenset({"sse4.2"}), frozenset({"avx"})
    assert features.vector_bits("x86_64", sse, here=True) == (128, "the least of x86_64 (SSE)")
    assert features.vector_bits("x86_64", avx, here=True) == (256, "feature avx")
    assert features.vector_registers("x86_64", avx) == (16, "no avx512f")
    assert features.vector_registers("riscv64", avx) == (16, "default: unknown architecture")


def test_what_the_kernel_denies_is_taken_away() -> None:
    has = frozenset({"avx2", "avx512f", "avx512vnni", "prefer-256-bit"})
    assert features.denied(has, frozenset({"avx2", "avx512f"}), "x86_64") == ("-avx512vnni",)
    assert features.denied(has, frozenset({"avx2", "avx512f", "avx512_vnni"}), "x86_64") == ()
    assert features.denied(frozenset({"sve"}), frozenset({"asimd"}), "aarch64") == ("-sve",)
    assert features.denied(has, frozenset(), "riscv64") == ()


def test_a_masked_feature_is_none_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    known = features.features_of(Target("cpu").mcpu) & features.KNOWN
    gone = sorted(known)[0]
    monkeypatch.setattr(features, "host_attributes", lambda: (f"-{gone}",))
    target = Target("cpu")
    assert gone not in target.features
    assert [f"-{gone}"] == list(target.tvm_target().attrs["mattr"])
    assert target.key.startswith(f"cpu/{target.mcpu}-{gone}/")


def test_a_system_that_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "find_cache", lambda *_, **__: None)
    assumed = resolve.limits_elsewhere("x86_64", frozenset())
    resolve._caches_of.cache_clear()
    try:
        facts = resolve.limits_here((0, 1, 2), assumed)
    finally:
        resolve._caches_of.cache_clear()
    assert facts["cores"] == Fact(3, "affinity mask, one CPU a core (0, 1, 2)")
    assert facts["l1_bytes"] == Fact(32 << 10, "default, of another machine")


def test_a_machine_without_a_last_level(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _cache(tmp_path, 7, 0, "1", "Data", "64K")
    place = _cache(tmp_path, 7, 2, "2", "Unified", "512K")
    real = host.find_cache
    monkeypatch.setattr(
        host, "find_cache", lambda cpu, level, **which: real(cpu, level, tmp_path, **which)
    )
    resolve._caches_of.cache_clear()
    try:
        facts = resolve.limits_here((7,), resolve.limits_elsewhere("x86_64", frozenset()))
    finally:
        resolve._caches_of.cache_clear()
    assert facts["l2_bytes"] == Fact(512 << 10, str(place))
    assert facts["l3_bytes"] == Fact(512 << 10, "no cache of level 3: as the one before")


def test_the_description_says_how_each_is_known() -> None:
    target = Target("cpu", l2_bytes=3 << 19)
    lines = target.describe().splitlines()
    assert lines[0] == target.key
    rows = {line.split()[0]: line for line in lines[1:]}
    assert "LLVM's name of the host CPU" in rows["mcpu"]
    assert "affinity mask" in rows["cores"] and f" {target.cores} " in rows["cores"]
    assert "1536 KiB  given" in rows["l2_bytes"]
    assert set(rows) == {*target.sources, "features"}
    for name in target.features & features.KNOWN:
        assert f" {name} " in rows["features"]


def test_the_description_of_another_machine() -> None:
    text = Target("aarch64/sve", cores=64, machine="generic").describe()
    assert "aarch64/sve@generic/cores=64/vector=128" in text
    assert "1 MiB  default, as for aarch64/sve" in text
    assert "64  given" in text
