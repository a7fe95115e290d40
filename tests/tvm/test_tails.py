"""Tiles that are cut off: a version for each number of iterations, and what has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx
from tvm.script import from_source

import schedlang as sl
from schedlang.interpreters.conversions import to_symbolic
from schedlang.tvm import program
from schedlang.tvm.full_tiles import with_full_tiles
from schedlang.tvm.symbolic_program import unify

ROWS = (1, 3, 5, 8, 13, 21, 34, 40)


def product(rows: int) -> Any:
    """``rows`` by 24 times 24 by 20."""
    return sl.workloads.matmul(rows, 20, 24)


def two(rows: int) -> Any:
    """Each row's sum, which is added to the row before it is doubled."""
    a = te.placeholder((rows, 12), name="A")
    k = te.reduce_axis((0, 12), name="k")
    total = te.compute((rows,), lambda i: te.sum(a[i, k], axis=k), name="total")
    return [a, te.compute((rows, 12), lambda i, j: (a[i, j] + total[i]) * 2.0, name="out")]


def tile_rows(sch: sl.Schedule) -> None:
    """Tiles of six rows, inside the sum."""
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(i, factors=[None, 6])
    sch.reorder(outer, j, k, inner)
    sch.parallel(outer)
    sch.unroll(inner)


def tile_twice(sch: sl.Schedule) -> None:
    """Tiles of eight rows in two levels, a loop over the sum between them."""
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    outer, middle, inner = sch.split(i, factors=[None, 2, 4])
    sch.reorder(outer, middle, k, inner, j)
    cached = sch.cache_write(block, write_buffer_index=0, storage_scope="global")
    sch.reverse_compute_at(cached, middle)


def tile_both(sch: sl.Schedule) -> None:
    """Tiles whose columns are cut off too, at a number that is known."""
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    outer, inner = sch.split(i, factors=[None, 5])
    left, right = sch.split(j, factors=[None, 8])
    sch.reorder(outer, left, k, inner, right)
    sch.vectorize(right)


def fuse_two(sch: sl.Schedule) -> None:
    """The sums of a tile of rows before the tile."""
    total, out = sch.get_block("total"), sch.get_block("out")
    i, _ = sch.get_loops(out)
    outer, inner = sch.split(i, factors=[None, 4])
    sch.compute_at(total, outer)
    sch.parallel(outer)
    sch.unroll(inner)


def symbolic(programs: Callable[[int], Any], change: Callable[[sl.Schedule], None]) -> Any:
    """What a schedule makes of the program with any number of rows."""
    points = [{"rows": rows} for rows in ROWS]
    unified = unify(points, [sl.workloads.as_workload(programs(**one)).mod for one in points])
    workload = sl.workloads.as_workload(programs(24))
    sch = sl.Schedule(workload)
    change(sch)
    return to_symbolic(sch.trace.instructions, workload, unified.mod)


@pytest.mark.parametrize(
    ("programs", "change", "versions"),
    [
        (product, tile_rows, 5),
        (product, tile_twice, 3),
        (product, tile_both, 11),
        (two, fuse_two, 3),
    ],
)
def test_every_number_of_rows_is_right(
    programs: Callable[[int], Any], change: Callable[[sl.Schedule], None], versions: int
) -> None:
    mod = symbolic(programs, change)
    # One for each number of rows, and of columns, that is less than a tile.
    tests = [line for line in mod.script().splitlines() if " == " in line and "if " in line]
    assert len(tests) == versions
    kernel = sl.Target("cpu").build(mod).main
    for rows in range(1, 42):
        plain = sl.workloads.as_workload(programs(rows))
        rng = np.random.default_rng(rows)
        inputs = [rng.standard_normal(one.shape, dtype="float32") for one in plain.args[:-1]]
        width = plain.args[-1].shape[1]
        guarded = np.full((rows + 2, width), np.nan, "float32")
        kernel(*inputs, guarded[1:-1])
        if programs is product:
            expected = inputs[0] @ inputs[1]
        else:
            expected = (inputs[0] + inputs[0].sum(axis=1, keepdims=True)) * 2
        np.testing.assert_allclose(guarded[1:-1], expected, rtol=1e-4, atol=1e-4)
        assert np.isnan(guarded[[0, -1]]).all()


def test_loops_with_steps_keep_them() -> None:
    script = """
@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle):
    rows = T.int32()
    A = T.match_buffer(a, (rows, 16), "float32")
    B = T.match_buffer(b, (rows, 16), "float32")
    for i in T.serial(rows):
        for j in T.serial(0, 16, step=2):
            with T.sblock("B"):
                vi = T.axis.spatial(rows, i)
                vj = T.axis.spatial(16, j)
                B[vi, vj] = A[vi, vj] * T.float32(2)
"""
    mod = with_full_tiles(program.as_main(from_source(script)))
    a, b = np.ones((3, 16), "float32"), np.zeros((3, 16), "float32")
    sl.Target("cpu").build(mod).main(a, b)
    assert (b[:, ::2] == 2).all() and (b[:, 1::2] == 0).all()


def test_the_place_of_the_least_value() -> None:
    def least(rows: int) -> Any:
        def smaller(one: Any, other: Any) -> Any:
            first = tirx.any(one[1] < other[1], tirx.all(one[1] == other[1], one[0] < other[0]))
            return [
                tirx.Select(first, one[0], other[0]),
                tirx.Select(first, one[1], other[1]),
            ]

        def start(*kinds: Any) -> Any:
            return [tirx.const(-1, kinds[0]), tirx.max_value(kinds[1])]

        reducer = te.comm_reducer(smaller, start, name="argmin")
        a = te.placeholder((rows, 12), name="A")
        k = te.reduce_axis((0, 12), name="k")
        place, value = te.compute((rows,), lambda i: reducer((k, a[i, k]), axis=k), name="least")
        return [a, place, value]

    def tile(sch: sl.Schedule) -> None:
        i, k = sch.get_loops(sch.get_block("least"))
        outer, inner = sch.split(i, factors=[None, 4])
        sch.reorder(outer, k, inner)

    mod = symbolic(least, tile)
    assert " == 3" in mod.script()
    kernel = sl.Target("cpu").build(mod).main
    for rows in range(1, 14):
        a = np.random.default_rng(rows).standard_normal((rows, 12), dtype="float32")
        place, value = np.zeros(rows, "int32"), np.zeros(rows, "float32")
        kernel(a, place, value)
        np.testing.assert_array_equal(place, a.argmin(axis=1))
        np.testing.assert_array_equal(value, a.min(axis=1))


def test_a_loop_that_holds_more_than_its_guard_keeps_its_iterations() -> None:
    script = """
@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle, c: T.handle):
    rows = T.int32()
    A = T.match_buffer(a, (rows,), "float32")
    B = T.match_buffer(b, (rows,), "float32")
    C = T.match_buffer(c, ((rows + 3) // 4 * 4,), "float32")
    for i in T.serial((rows + 3) // 4):
        for k in T.serial(4):
            with T.sblock("C"):
                vi = T.axis.spatial((rows + 3) // 4 * 4, i * 4 + k)
                C[vi] = T.float32(7)
            with T.sblock("B"):
                vi = T.axis.spatial(rows, i * 4 + k)
                T.where(i * 4 + k < rows)
                B[vi] = A[vi] * T.float32(2)
"""
    mod = with_full_tiles(program.as_main(from_source(script)))
    assert " == " not in mod.script()
    kernel = sl.Target("cpu").build(mod).main
    for rows in range(1, 10):
        a, b = np.arange(rows, dtype="float32"), np.zeros(rows, "float32")
        c = np.zeros((rows + 3) // 4 * 4, "float32")
        kernel(a, b, c)
        np.testing.assert_array_equal(b, a * 2)
        assert (c == 7).all()
