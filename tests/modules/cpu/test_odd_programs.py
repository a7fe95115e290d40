"""The default space on programs that nobody schedules: every draw applies, and is right."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from tvm import te

import schedlang as sl
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules import decompose_reduction, finish_by_work
from schedlang.spaces.module import module
from schedlang.spaces.space import Space
from schedlang.targets import CPUTarget
from schedlang.targets.cpu.target import cpu_space
from schedlang.workloads import from_te
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import matmul
from tests.modules.odd_programs import ODD, odd
from tests.properties.programs import assert_same_numbers, expected, run

SEEDS = range(6)


@functools.cache
def default_space() -> Space:
    return cpu_space(CPUTarget("cpu", cores=2, vector_bits=256))


def assert_right(sch: Schedule, workload: Workload) -> None:
    """Integers are equal, and other results equal up to rounding; NaN may be where it was."""
    for found, wanted in zip(run(sch.mod, workload), expected(workload), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4, err_msg=str(sch.trace))


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_every_draw_applies_and_computes_the_same(name: str) -> None:
    workload = odd(name).workload
    programs: dict[str, Schedule] = {}
    for seed in SEEDS:
        # Unrolling more takes LLVM seconds, and has no part in what applies.
        sch = default_space().sample(workload, seed=seed, decisions={"unroll": 16 * (seed % 2)})
        programs.setdefault(str(sch.mod), sch)
    text, sch = max(
        programs.items(), key=lambda item: (item[0].count("T.vectorized"), len(item[0]))
    )
    assert str(sch.trace.replay(workload).mod) == text
    assert_right(sch, workload)


@pytest.mark.slow
@pytest.mark.parametrize("name", ODD)
def test_threads_and_lanes_are_used_where_iterations_are_independent(name: str) -> None:
    workload, *wanted = odd(name)
    found = []
    for way, lanes in (("along_stores", 16), ("metaschedule", 64)):
        sch = Schedule(workload)
        finish_by_work(sch, way, 32, lanes, 0, 0)
        text = str(sch.mod)
        found.append("".join(["-P"["T.parallel" in text], "-V"["T.vectorized" in text]]))
        if found[-1] != "--":
            assert_right(sch, workload)
    assert found == wanted


@module
def block_as_goto(sch: Schedule, block: BlockRV) -> None:
    """for i, j, k: C  ->  for k0: for i0, j0: for k1: for i1, j1: C (Goto and van de Geijn)."""
    i, j, k = sch.get_loops(block)
    k0, k1 = sch.split(k, [None, 4])
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(k0, i0, j0, k1, i1, j1)


@module
def block_rows_as_goto(sch: Schedule, block: BlockRV) -> None:
    """for i, j, k: C  ->  for i0: {init; for k0: for j0: for k1: for i1, j1: C}."""
    i, j, k = sch.get_loops(block)
    k0, k1 = sch.split(k, [None, 4])
    i0, i1 = sch.split(i, [None, 4])
    j0, j1 = sch.split(j, [None, 8])
    sch.reorder(i0, k0, j0, k1, i1, j1)


@pytest.mark.parametrize("blocking", [block_as_goto, block_rows_as_goto])
def test_a_users_decomposed_reduction_can_be_finished(blocking: sl.Module) -> None:
    mine = Space([blocking, decompose_reduction]).as_module("goto")
    space = default_space().before("multi_level_tiling", mine)
    for seed in range(4):
        sch = space.sample(matmul(), seed=seed)
        assert "C_update" in str(sch.mod)
        assert_same_numbers(sch.mod, matmul(), sch.trace)


def test_blocks_of_one_name_are_told_apart() -> None:
    text = str(odd("same_name_twice").workload.mod)
    assert 'T.sblock("x")' in text and 'T.sblock("x_1")' in text


def test_caches_of_buffers_of_one_name() -> None:
    """TVM calls both caches ``c_global``."""
    a = te.placeholder((16, 16), name="A")
    b = te.placeholder((16, 16), name="B")

    def product(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, 16), name="k")
        return te.compute((16, 16), lambda i, j: te.sum(x[i, k] * y[k, j], axis=k), name="c")

    workload = from_te([a, b, product(product(a, b), b)])
    repeated = 0
    for seed in range(12):
        sch = default_space().sample(workload, seed=seed, decisions={"unroll": 0})
        repeated += str(sch.mod).count('T.sblock("c_global")') > 1
        assert str(sch.trace.replay(workload).mod) == str(sch.mod)
    assert repeated
