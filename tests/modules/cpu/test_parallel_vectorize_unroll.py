"""``parallel_vectorize_unroll``: which loop nests get threads, and who decides."""

from __future__ import annotations

import pytest
from tvm import te

import schedlang as sl
from schedlang.analysis.concurrency import loop_work, nest_work
from schedlang.errors import SpaceError
from schedlang.language.schedule import Schedule
from schedlang.modules import finish_by_work, parallel_vectorize_unroll, update_in_chains
from schedlang.targets.cpu.target import cpu_space
from schedlang.workloads import from_te, matmul
from schedlang.workloads.operators import standard
from schedlang.workloads.workload import Workload
from tests.modules.users_kernels import sparse_product

FINISH = parallel_vectorize_unroll(cores=2, large_work=2**17)


def doubled(*extents: int, sums: int = 0) -> Workload:
    """B = A * 2 of these extents; then C = sum over ``sums`` elements of A for each of 4 rows."""
    a = te.placeholder(extents, name="A")
    tensors = [a, te.compute(extents, lambda *i: a(*i) * 2.0, name="B")]
    if sums:
        x = te.placeholder((4, sums), name="X")
        k = te.reduce_axis((0, sums), name="k")
        tensors += [x, te.compute((4,), lambda i: te.sum(x[i, k], axis=k), name="C")]
    return from_te(tensors)


def sample(workload: Workload, **decisions: int) -> Schedule:
    return sl.Space([FINISH]).sample(workload, seed=0, decisions=decisions)


def test_a_small_program_gets_no_threads_and_no_choice() -> None:
    sch = sample(doubled(8, 8))
    assert list(sch.trace.decisions) == ["unroll"]
    assert "T.parallel" not in str(sch.mod) and "T.vectorized" in str(sch.mod)


def test_in_between_the_threads_are_drawn() -> None:
    workload = doubled(64, 64)
    distribution = sample(workload).trace.distributions["parallel_from"]
    assert list(distribution.support()) == [-1, 8192]
    assert "T.parallel" not in str(sample(workload, parallel_from=-1).mod)
    assert "T.parallel" in str(sample(workload, parallel_from=8192).mod)


def test_only_the_large_nests_get_threads() -> None:
    workload = doubled(64, 64, sums=1024)
    assert nest_work(Schedule(workload)) == [3 * 4096, 4 * 4096]
    workload = doubled(8, 16, sums=1024)
    distribution = sample(workload).trace.distributions["parallel_from"]
    assert list(distribution.support()) == [-1, 8192]
    sch = sample(workload, parallel_from=8192)
    parallel = [line for line in str(sch.mod).splitlines() if "T.parallel" in line]
    assert len(parallel) == 1 and "in T.parallel(4," in parallel[0]


def test_a_large_program_is_finished_as_before() -> None:
    for workload in (doubled(512, 512), matmul(64, 64, 64)):
        sch = sample(workload)
        assert list(sch.trace.decisions) == ["unroll"]
        assert "finish_blocks(sch" in str(sch.trace)


@pytest.mark.parametrize("name", ["NRM", "SFM", "DEP", "CAP", "GMM"])
def test_the_standard_workloads_are_large(name: str) -> None:
    space = cpu_space(sl.Target("x86/avx512"))
    trace = space.sample(standard(name)[0], seed=0).trace
    assert "finish_by_work" not in str(trace)


def test_without_a_bound_every_nest_gets_threads() -> None:
    sch = sl.Space([parallel_vectorize_unroll(cores=2)]).sample(doubled(8, 8), seed=0)
    assert "T.parallel" in str(sch.mod)


@pytest.mark.parametrize("way", ["along_stores", "metaschedule"])
def test_each_way_of_finishing_can_stay_serial(way: str) -> None:
    for bound, threads in ((0, True), (3 * 4096, True), (3 * 4096 + 1, False), (-1, False)):
        sch = Schedule(doubled(64, 64))
        finish_by_work(sch, way, 32, 16, 0, bound)
        assert ("T.parallel" in str(sch.mod)) == threads, bound
        assert "T.vectorized" in str(sch.mod)


def test_work_counts_operations_accesses_and_calls() -> None:
    a = te.placeholder((10,), name="A")
    assert nest_work(Schedule(from_te([a, te.compute((10,), lambda i: te.exp(a[i]))]))) == [180]
    product = Schedule(matmul(8, 8, 8))
    assert nest_work(product) == [512]
    i, _, k = product.get_loops(product.get_block("C"))
    assert [loop_work(product, i), loop_work(product, k)] == [512, 8]
    product.split(k, [None, 4])
    assert nest_work(product) == [512] == nest_work(product, scheduled=False)


def test_a_way_that_is_none() -> None:
    with pytest.raises(SpaceError, match=r"way='sideways'\): it takes one of \('along_stores'"):
        finish_by_work(Schedule(doubled(8, 8)), "sideways", 32, 16, 0, 0)


def test_the_work_of_loops_whose_length_the_data_say_is_guessed_from_what_they_read() -> None:
    workload = sparse_product(64, 64, 32)
    sch = Schedule(workload)
    block = sch.get_block("Y")
    entry = sum(nest_work(sch)) // 64 // 32
    assert 4 <= entry <= 8  # operations and accesses
    update_in_chains(sch, block, sch.get_loops(block)[-1], 4)
    assert sum(nest_work(sch)) < 4 * sum(nest_work(sch, scheduled=False))
