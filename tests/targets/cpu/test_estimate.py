"""The estimate ranks programs by what is known to matter."""

from __future__ import annotations

import math

import pytest

import schedlang as sl
from schedlang.targets import CPUTarget

TARGET = CPUTarget("x86/avx2", cores=4)
CHANNELS = sl.workloads.conv2d_bn_relu(28, 28, 64, 64, 3, 1, 1)


def sampled(workload: sl.Workload, **choices: object) -> sl.Schedule:
    return sl.default_space(TARGET).sample(workload, seed=0, choices=choices)


def estimate(sch: sl.Schedule, target: CPUTarget = TARGET) -> float:
    found = target.estimate(sch.mod)
    assert found > 0
    return found


def plain(parallel: bool, vector: bool, order: str = "ikj") -> sl.Schedule:
    sch = sl.Schedule(sl.workloads.matmul(256, 256, 256))
    block = sch.get_block("C")
    loops = dict(zip("ijk", sch.get_loops(block), strict=True))
    sch.reorder(*(loops[letter] for letter in order))
    if vector:
        sch.vectorize(sch.split(loops["j"], [None, 8])[1])
    if parallel:
        sch.parallel(loops["i"])
    return sch


def test_threads_and_lanes_pay() -> None:
    serial, vector, both = plain(False, False), plain(False, True), plain(True, True)
    assert estimate(both) < estimate(vector) / 2 < estimate(serial) / 4


def test_threads_do_not_pay_for_little_work() -> None:
    sch = sl.Schedule(sl.workloads.matmul(4, 4, 4))
    before = estimate(sch)
    sch.parallel(sch.get_loops(sch.get_block("C"))[0])
    assert estimate(sch) > 4 * before


def test_more_cores_are_faster() -> None:
    sch = plain(True, True)
    assert estimate(sch, CPUTarget("x86/avx2", cores=2)) > 1.5 * estimate(sch)


def test_a_condition_in_the_lanes_costs() -> None:
    text = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((64, 62), "float32"), B: T.Buffer((64, 64), "float32")):
    for i in range(64):
        for j in T.vectorized(64):
            with T.sblock("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.if_then_else({condition}, A[vi, vj - 1], T.float32(0))
"""
    along = sl.Schedule(sl.workloads.from_script(text.format(condition="1 <= vj and vj < 63")))
    across = sl.Schedule(sl.workloads.from_script(text.format(condition="1 <= vi and vi < 63")))
    assert estimate(along) > 3 * estimate(across)


def test_a_register_tile_beats_plain_loops() -> None:
    tiled = sampled(CHANNELS, **{"register_tile:conv2d": True})
    assert estimate(tiled) < estimate(sl.Schedule(CHANNELS)) / 10


@pytest.mark.parametrize("guess", [None, math.nan, ValueError("an unknown statement")], ids=str)
def test_what_has_no_estimate_comes_last(
    guess: float | Exception | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def guessed(self: CPUTarget, mod: object) -> float | None:
        if isinstance(guess, Exception):
            raise guess
        return guess

    assert TARGET.has_estimate and TARGET.estimated(CHANNELS.mod) == TARGET.estimate(CHANNELS.mod)
    monkeypatch.setattr(CPUTarget, "estimate", guessed)
    assert TARGET.estimated(CHANNELS.mod) == math.inf
