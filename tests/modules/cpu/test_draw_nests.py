"""Tiles, grain and lanes of programs that no module tiles: many programs, and all of them right."""

from __future__ import annotations

import functools

import pytest

import schedlang as sl
from schedlang.language.schedule import Schedule
from schedlang.targets import CPUTarget
from schedlang.targets.cpu.target import cpu_space
from schedlang.workloads.workload import Workload
from tests.modules.cpu.test_odd_programs import assert_right
from tests.modules.odd_programs import odd
from tests.modules.users_kernels import LARGE, USERS_KERNELS, prefix_sum, rotary, sort_rows


@functools.cache
def space() -> sl.Space:
    return cpu_space(CPUTarget("cpu", cores=2, vector_bits=256))


def draw(workload: Workload, count: int) -> list[Schedule]:
    """That many different programs, of at most 200 draws."""
    found: dict[str, Schedule] = {}
    for seed in range(200):
        sch = space().sample(workload, seed=seed)
        found.setdefault(sch.program_key, sch)
        if len(found) == count:
            break
    return list(found.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", USERS_KERNELS)
def test_there_are_many_programs_and_they_are_right(name: str) -> None:
    workload = USERS_KERNELS[name]()
    found = draw(workload, 30)
    assert len(found) == 30
    # Unrolling much takes LLVM seconds.
    short = [sch for sch in found if sch.trace.decisions["unroll"] != 3]
    for sch in short[:6]:
        assert_right(sch, workload)


def test_the_inner_parts_of_independent_loops_are_innermost() -> None:
    sch = space().sample(rotary(), seed=0, decisions={"nest:Y:0": [4, 4], "nest:Y:2": [2, 16]})
    assert "sch.reorder(" in str(sch.trace)


def test_rows_of_a_scan_advance_together_and_run_in_parallel() -> None:
    workload = prefix_sum(256, 512)
    decisions = {"nest:B:0": [64, 4], "nest:B:1": [64, 8], "grain": 2}
    choices = {"finish": "along_stores"}
    for seed in range(3):
        sch = space().sample(workload, seed=seed, decisions=decisions, choices=choices)
        loops = [str(sch.get(loop).loop_var.name) for loop in sch.get_loops(sch.get_block("B"))]
        assert loops == ["i_0", "j_0", "i_1", "j_1"] and "i_0 in T.parallel(64" in str(sch.mod)
        assert_right(sch, workload)


@pytest.mark.parametrize("name", ["scan_through_two_blocks", "carried_read"])
def test_loops_that_blocks_share_are_not_reordered(name: str) -> None:
    workload = odd(name).workload
    for seed in range(12):
        sch = space().sample(workload, seed=seed, decisions={"unroll": 0})
        assert "sch.reorder(" not in str(sch.trace)
        assert_right(sch, workload)


def test_what_reduces_draws_as_before() -> None:
    sch = space().sample(sl.workloads.matmul(32, 32, 32), seed=0)
    assert not any(site.startswith(("nest:", "grain", "lanes")) for site in sch.trace.decisions)


def test_a_loop_alone_has_many_programs_at_its_size() -> None:
    assert len(draw(sort_rows(*LARGE["sort_rows"]), 30)) == 30
