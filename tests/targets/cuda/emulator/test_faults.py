"""Faults that are planted into generated code are found, and named."""

from __future__ import annotations

from tests.targets.cuda.emulator.programs import (
    needs_compiler,
    shared_product,
    warp_product,
)

pytestmark = needs_compiler


def test_a_removed_barrier_is_a_race() -> None:
    found = shared_product(16).emulate_edited("__syncthreads();", "", orders=1)
    assert found.verified is False
    assert {fault.kind for fault in found.faults} >= {"race", "wrong_result"}
    race = next(fault for fault in found.faults if fault.kind == "race")
    assert "shared" in race.message and "no barrier lies between" in race.message


def test_a_wrong_fragment_layout_gives_wrong_numbers() -> None:
    found = warp_product(k=32).emulate_edited("x4.trans.shared", "x4.shared", orders=1)
    assert [fault.kind for fault in found.faults] == ["wrong_result"]
