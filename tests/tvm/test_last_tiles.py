"""Last tiles that start earlier: what is right with them, and what keeps its guards."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te
from tvm.script import from_source

import schedlang as sl
from schedlang.tvm import program
from schedlang.tvm.schedule.last_tiles import with_overlapping_tiles
from tests.tvm.kept_tiles import KEPT

HEADER = "@T.prim_func(s_tir=True)\n"


def guards(mod: Any) -> tuple[int, int]:
    """The number of guards of a program, and of that with earlier last tiles."""
    return mod.script().count("T.where"), with_overlapping_tiles(mod).script().count("T.where")


def product() -> Any:
    return sl.workloads.matmul(17, 35, 11)


def stencil() -> Any:
    a = te.placeholder((25, 23), name="A")
    b = te.compute((25, 23), lambda i, j: a[i, j] * 2.0 + 1.0, name="B")
    return [a, te.compute((23, 21), lambda i, j: b[i, j] + b[i + 1, j + 2] * b[i + 2, j], name="C")]


def convolution() -> Any:
    return sl.workloads.conv2d(11, 9, 3, 19, 3, 2, 1)


def rows_and_sums() -> Any:
    a = te.placeholder((23, 21), name="A")
    k = te.reduce_axis((0, 21), name="k")
    total = te.compute((23,), lambda i: te.sum(a[i, k], axis=k), name="T")
    return [a, te.compute((23, 21), lambda i, j: a[i, j] - total[i], name="C")]


def other_layout() -> Any:
    a = te.placeholder((23, 20), name="A")
    b = te.compute((23, 20), lambda i, j: a[i, j] + 1.0, name="T")
    return [a, te.compute((460,), lambda x: b[x // 20, x % 20] * 3.0, name="C")]


def transposed_chain() -> Any:
    a, b = te.placeholder((13, 21), name="A"), te.placeholder((21, 13), name="B")
    t = te.compute((13, 21), lambda i, j: a[i, j] + b[j, i], name="T")
    u = te.compute((21, 13), lambda j, i: t[i, j] * 2.0, name="U")
    return [a, b, te.compute((21, 13), lambda j, i: u[j, i] + u[j, (i + 1) % 13], name="C")]


# With the number of schedules that are freed of guards, at least.
PROGRAMS = {
    product: 3,
    stencil: 3,
    convolution: 1,
    rows_and_sums: 3,
    other_layout: 0,
    transposed_chain: 0,
}


def tile(sch: sl.Schedule, block: Any, rng: random.Random) -> None:
    """Split loops by factors that may not divide them, at up to three levels, in some order."""
    levels: list[list[Any]] = [[], [], []]
    for loop in sch.get_loops(block):
        extent = int(sch.get(loop).extent)
        count = rng.choice((1, 2, 3)) if extent > 2 else 1
        factors = [None, *(rng.randint(2, min(8, extent)) for _ in range(count - 1))]
        parts = sch.split(loop, factors) if count > 1 else [loop]
        for level, part in enumerate(parts):
            levels[level].append(part)
    sch.reorder(*(loop for level in levels for loop in rng.sample(level, len(level))))


def scheduled(source: Callable[[], Any], seed: int) -> sl.Schedule:
    """A program with tiles that do not fit, whatever else applies."""
    rng = random.Random(seed)
    sch = sl.Schedule(sl.workloads.as_workload(source()))
    *producers, last = sch.get_child_blocks(sch.get_block("root"))

    def maybe(likely: float, change: Callable[[], Any]) -> None:
        if rng.random() < likely:
            mark = sch.mark()
            try:
                change()
            except sl.InstructionError:
                sch.rollback(mark)

    def any_loop() -> Any:
        return rng.choice(sch.get_loops(last))

    def write_through_cache() -> None:
        sch.reverse_compute_at(sch.cache_write(last, 0, "global"), any_loop())

    tile(sch, last, rng)
    maybe(0.6, write_through_cache)
    for block in reversed(producers):
        maybe(0.6, lambda block=block: sch.compute_at(block, any_loop()))  # type: ignore[misc]
    maybe(0.4, lambda: sch.fuse(*sch.get_loops(last)[:2]))
    maybe(0.6, lambda: sch.parallel(sch.get_loops(last)[0]))
    if not producers:
        maybe(0.6, lambda: sch.vectorize(sch.get_loops(last)[-1]))
    maybe(0.5, lambda: sch.decompose_reduction(last, any_loop()))
    return sch


def run(mod: Any, workload: Any) -> np.ndarray[Any, Any]:
    """The result of a program; nothing else was written."""
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(one.shape, dtype="float32") for one in workload.args[:-1]]
    shape = workload.args[-1].shape
    size = int(np.prod(shape))
    memory = np.full(size + 64, np.nan, "float32")
    sl.Target("cpu").build(mod).main(*inputs, memory[32:-32].reshape(shape))
    assert np.isnan(memory[:32]).all() and np.isnan(memory[-32:]).all()
    return memory[32:-32]


@pytest.mark.slow
@pytest.mark.parametrize("source", PROGRAMS, ids=lambda one: one.__name__)
def test_programs_with_tiles_that_do_not_fit_are_right(source: Callable[[], Any]) -> None:
    freed = 0
    expected = None
    for seed in range(12):
        sch = scheduled(source, seed)
        if expected is None:
            expected = run(sch.workload.mod, sch.workload)
        before, after = guards(sch.mod)
        freed += after < before
        np.testing.assert_allclose(run(sch.mod, sch.workload), expected, rtol=1e-3, atol=1e-3)
    assert freed >= PROGRAMS[source]


def tiled_product(rows: int, width: int) -> sl.Schedule:
    """A product whose tiles stay in registers."""
    sch = sl.Schedule(sl.workloads.as_workload(product()))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, rows])
    j0, j1 = sch.split(j, [None, width])
    sch.reorder(i0, j0, k, i1, j1)
    sch.reverse_compute_at(sch.cache_write(block, 0, "global"), j0)
    sch.parallel(sch.fuse(i0, j0))
    sch.vectorize(sch.get_loops(block)[-1])
    return sch


def test_tiles_of_rows_and_columns_start_earlier() -> None:
    sch = tiled_product(9, 16)
    text = with_overlapping_tiles(sch.mod).script()
    assert "T.where" not in text
    # 17 rows and 35 columns.
    assert "T.min(i_0_j_0_fused // 3 * 9, 8)" in text
    assert "T.min(i_0_j_0_fused % 3 * 16, 19)" in text


def test_tiles_without_work_are_left_out() -> None:
    """Of 4 tiles by 4 by 3 rows, the last ones begin behind row 16."""
    sch = sl.Schedule(sl.workloads.as_workload(product()))
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1, i2 = sch.split(i, [None, 4, 3])
    sch.reorder(i0, i1, k, i2, j)
    sch.reverse_compute_at(sch.cache_write(block, 0, "global"), i1)
    text = with_overlapping_tiles(sch.mod).script()
    assert "if i_0 * 12 + i_1 * 3 < 17:" in text and "T.where" not in text
    np.testing.assert_allclose(
        run(sch.mod, sch.workload), run(sch.workload.mod, sch.workload), rtol=1e-4, atol=1e-4
    )


def test_a_program_without_guards_is_unchanged() -> None:
    mod = tiled_product(17, 35).mod
    assert with_overlapping_tiles(mod).script() == mod.script()


def test_what_is_computed_at_a_tile_moves_with_it() -> None:
    """A maximum after the sum."""
    a, b = te.placeholder((17, 11), name="A"), te.placeholder((11, 35), name="B")
    k = te.reduce_axis((0, 11), name="k")
    product = te.compute((17, 35), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="P")
    sch = sl.Schedule(
        sl.workloads.as_workload(
            [a, b, te.compute((17, 35), lambda i, j: te.max(product[i, j] + 1.0, 0.0), name="C")]
        )
    )
    block, consumer = sch.get_block("P"), sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i0, i1 = sch.split(i, [None, 6])
    j0, j1 = sch.split(j, [None, 16])
    sch.reorder(i0, j0, k, i1, j1)
    sch.parallel(i0)
    sch.reverse_compute_at(consumer, j0)
    sch.vectorize(sch.get_loops(consumer)[-1])
    assert guards(sch.mod) == (2, 0)
    np.testing.assert_allclose(
        run(sch.mod, sch.workload), run(sch.workload.mod, sch.workload), rtol=1e-4, atol=1e-4
    )


def test_an_intermediate_result_may_be_written_by_tiles() -> None:
    a, b, c = (
        te.placeholder(shape, name=name)
        for name, shape in zip("ABC", ((17, 11), (11, 35), (35, 9)), strict=True)
    )
    k, m = te.reduce_axis((0, 11), name="k"), te.reduce_axis((0, 35), name="m")
    first = te.compute((17, 35), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="first")
    second = te.compute((17, 9), lambda i, j: te.sum(first[i, m] * c[m, j], axis=m), name="second")
    sch = sl.Schedule(sl.workloads.as_workload([a, b, c, second]))
    for name in ("first", "second"):
        block = sch.get_block(name)
        i, j, k = sch.get_loops(block)
        i0, i1 = sch.split(i, [None, 6])
        sch.reorder(i0, k, i1, j)
        sch.reverse_compute_at(sch.cache_write(block, 0, "global"), i0)
    assert guards(sch.mod) == (4, 0)
    np.testing.assert_allclose(
        run(sch.mod, sch.workload), run(sch.workload.mod, sch.workload), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("source", KEPT.values(), ids=KEPT)
def test_what_may_not_run_twice_keeps_its_guards(source: str) -> None:
    text = HEADER + source.lstrip("\n")
    mod = program.as_main(from_source(text, check_well_formed=False))
    before, after = guards(mod)
    assert 0 < before == after
