"""Which other machines' schedules a target takes, and in which order."""

from __future__ import annotations

import pytest

import schedlang as sl

ZEN4 = sl.Target("cpu", 8, "znver4", triple="x86_64-unknown-linux-gnu")


def keys_of(*names: str) -> list[str]:
    return [sl.Target(name).key for name in names]


def test_cpus_by_vectors_then_instructions_cores_and_model() -> None:
    nearest_first = [
        "cpu/znver4/cores=6/vector=512",
        "cpu/znver4/cores=64/vector=512",
        "cpu/znver5/cores=8/vector=512",
        "x86/avx512@znver4/cores=8/vector=512",
        "cpu/znver3/cores=8/vector=256",
        "cpu/nehalem/cores=8/vector=128",
    ]
    others = ["cpu/neoverse-v1@aarch64/cores=8/vector=512", "cuda/sm_80", "dsp/registers=16"]
    wrong = ["cpu", "cpu/no-cpu/cores=8/vector=512", "", "x86/avx9@a", "cuda"]
    given = [*nearest_first[::-1], *others, *wrong, ZEN4.key]
    assert ZEN4.relatives(given) == nearest_first


def test_wider_vectors_come_after_narrower_ones() -> None:
    zen3 = sl.Target("cpu", 8, "znver3", triple="x86_64-unknown-linux-gnu")
    narrow, wide = "cpu/nehalem/cores=8/vector=128", "cpu/znver4/cores=8/vector=512"
    assert zen3.relatives([wide, narrow]) == [narrow, wide]


def test_gpus_by_architecture_and_never_a_newer_one() -> None:
    given = keys_of("b200", "v100", "h200", "a100", "a10", "sm_90", "l40s", "rtx-4090", "h100")
    assert sl.Target("h100").relatives([*given, ZEN4.key]) == [
        *keys_of("sm_90", "h200", "rtx-4090", "l40s", "a10", "a100", "v100")
    ]
    assert sl.Target("sm_80").relatives(given) == keys_of("a100", "v100")


@pytest.mark.parametrize("name", ["sm_90", "b200"])
def test_what_only_one_architecture_has_comes_last_of_it(name: str) -> None:
    """Records of sm_90a may use instructions that neither sm_90 nor sm_100 has."""
    plain = sl.Target("cuda", arch="sm_90", sms=8).key
    found = sl.Target(name).relatives(keys_of("h100", "a100") + [plain])
    assert found == [plain, *keys_of("h100", "a100")]


def test_machines_of_another_kind_are_no_relatives() -> None:
    assert sl.Target("h100").distance(ZEN4) is None
    assert ZEN4.distance(sl.Target("h100")) is None
