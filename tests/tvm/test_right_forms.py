"""Primitives that TVM 0.27 computes wrongly in some forms: those are refused, others are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

import schedlang as sl

Step = Callable[[sl.Schedule], object]


def product(epilogue: Callable[..., Any], *, begin: float = 0.0) -> Callable[[], list[Any]]:
    """A product of 9 by 9, and what follows it."""

    def make() -> list[Any]:
        a, b, c = (te.placeholder((9, 9), name=name) for name in ("A", "B", "bias"))
        k = te.reduce_axis((0, 9), "k")
        add = te.comm_reducer(lambda x, y: x + y, lambda dtype: tirx.const(begin, dtype))
        total = te.compute((9, 9), lambda i, j: add(a[i, k] * b[k, j], axis=k), name="C")
        return [a, b, c, te.compute((9, 9), lambda i, j: epilogue(total, c, i, j), name="D")]

    return make


def row_sums() -> list[Any]:
    a, k = te.placeholder((8, 13), name="A"), te.reduce_axis((0, 13), "k")
    return [a, te.compute((8,), lambda i: te.sum(a[i, k], axis=k), name="S")]


def padded() -> list[Any]:
    a, k = te.placeholder((8, 8), name="A"), te.reduce_axis((0, 3), "k")

    def inside(i: Any, j: Any) -> Any:
        return tirx.if_then_else(
            tirx.all(i >= 1, i < 9, j >= 1, j < 9), a[i - 1, j - 1], tirx.const(0.0, "float32")
        )

    p = te.compute((10, 10), inside, name="P")
    return [a, te.compute((8, 10), lambda i, j: te.sum(p[i + k, j], axis=k), name="C")]


def chain() -> list[Any]:
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda i, j: a[i, j] * 2.0, name="B")
    return [a, te.compute((8, 16), lambda i, j: b[i, j] + 1.0, name="C")]


def two_sums() -> list[Any]:
    a, k = te.placeholder((8, 8, 8), name="A"), te.reduce_axis((0, 8), "k")
    b = te.compute((8, 8), lambda i, j: te.sum(a[i, j, k], axis=k), name="B")
    m = te.reduce_axis((0, 8), "m")
    return [a, te.compute((8,), lambda i: te.sum(b[i, m], axis=m), name="C")]


def later_rows() -> list[Any]:
    a = te.placeholder((10, 8), name="A")
    b = te.compute((10, 8), lambda i, j: a[i, j] * 2.0, name="B")
    return [a, te.compute((9, 8), lambda i, j: b[i + 1, j] + 1.0, name="C")]


def sums_of_squares() -> list[Any]:
    a, k = te.placeholder((8, 13), name="A"), te.reduce_axis((0, 13), "k")
    e = te.compute((8, 13), lambda i, j: a[i, j] * a[i, j], name="E")
    s = te.compute((8,), lambda i: te.sum(e[i, k], axis=k), name="S")
    t = te.compute((8,), lambda i: s[i] + 1.0, name="T")
    return [a, te.compute((8, 13), lambda i, j: e[i, j] + t[i], name="D")]


def reversed_rows() -> list[Any]:
    a = te.placeholder((9, 8), name="A")
    b = te.compute((9, 8), lambda i, j: a[i, j] * 2.0, name="B")
    return [a, te.compute((9, 8), lambda i, j: b[8 - i, j] + 1.0, name="C")]


def siblings() -> list[Any]:
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda i, j: a[i, j] * 2.0, name="B")
    c = te.compute((8, 16), lambda i, j: a[i, j] + 1.0, name="C")
    return [a, te.compute((8, 16), lambda i, j: b[i, j] * c[i, j], name="D")]


def side_by_side() -> list[Any]:
    a, b = (te.placeholder((8, 4), name=name) for name in "AB")

    def either(i: Any, j: Any) -> Any:
        return tirx.if_then_else(j < 4, a[i, j], b[i, j - 4])

    return [a, b, te.compute((8, 8), either, name="C")]


def differences() -> list[Any]:
    """Sums of what is 0 only where both are."""
    a, b = te.placeholder((8, 7), name="A"), te.placeholder((8,), name="B")
    k = te.reduce_axis((0, 7), "k")
    return [a, b, te.compute((8,), lambda i: te.sum(a[i, k] - b[i], axis=k), name="S")]


def windows() -> list[Any]:
    """Sums of two neighbours, of twice the input."""
    a = te.placeholder((9, 7), name="A")
    b = te.compute((9, 7), lambda i, j: a[i, j] * 2.0, name="B")
    return [a, te.compute((7, 7), lambda i, j: b[i, j] + b[i + 2, j], name="C")]


def quotients() -> list[Any]:
    a, b = (te.placeholder((9,), name=name, dtype="int32") for name in "AB")
    return [a, b, te.compute((9,), lambda i: tirx.floordiv(a[i], b[i]), name="C")]


def shifted() -> list[Any]:
    """Twice the input, and the row above, where there is one."""
    a = te.placeholder((8, 16), name="A")
    b = te.compute((8, 16), lambda i, j: a[i, j] * 2.0, name="B")

    def total(i: Any, j: Any) -> Any:
        return b[i, j] + tirx.if_then_else(i >= 1, a[i - 1, j], tirx.const(0.0, "float32"))

    return [a, te.compute((8, 16), total, name="C")]


def split_and_factor(loop: int) -> Step:
    def step(sch: sl.Schedule) -> None:
        sch.split(sch.get_loops("S")[loop], [None, 5])
        sch.rfactor(sch.get_loops("S")[-1], 0)

    return step


def merge(one: str, other: str) -> Step:
    return lambda sch: sch.merge(sch.get_loops(one)[0], sch.get_loops(other)[0])


def after(first: Step, then: Step) -> Step:
    def step(sch: sl.Schedule) -> None:
        first(sch)
        then(sch)

    return step


def behind(block: str, producer: str, loop: int) -> Step:
    return lambda sch: sch.reverse_compute_at(block, sch.get_loops(producer)[loop])


def all_behind(loop: int) -> Step:
    """Put the consumers of squares of rows behind them, in one of their loops."""

    def move(sch: sl.Schedule) -> None:
        for block in ("S", "T", "D"):
            sch.reverse_compute_at(block, sch.get_loops("E")[loop])

    return move


def rows_of_a_producer(sch: sl.Schedule) -> None:
    sch.blockize(sch.get_loops("B")[1])


def producer_at_its_consumer(sch: sl.Schedule) -> None:
    sch.compute_at("B", sch.get_loops("C")[0])


def stored_in_reverse(then: Step) -> Step:
    return after(lambda sch: sch.reverse_compute_inline("C"), then)


def tiles_of_rows(sch: sl.Schedule) -> None:
    sch.split(sch.get_loops("B")[0], [2, None])


def copy_of_results(sch: sl.Schedule) -> None:
    sch.cache_write("B", 0, "local")


def apart(sch: sl.Schedule) -> None:
    sch.decompose_reduction("S", sch.get_loops("S")[1])


def fuse_epilogue(sch: sl.Schedule) -> None:
    sch.fuse_reduction_epilogue("C", "D")


def partition(block: str, loop: int) -> Step:
    return lambda sch: sch.loop_partition(sch.get_loops(block)[loop], [4, None])


def decompose_and_partition(sch: sl.Schedule) -> None:
    sch.decompose_reduction("S", sch.get_loops("S")[1])
    partition("S_update", 1)(sch)


def partition_tiles(sch: sl.Schedule) -> None:
    """The outer loop of a reduction that was split."""
    outer, _ = sch.split(sch.get_loops("S")[1], [None, 2])
    sch.loop_partition(outer, [3, None])


def pad_below(loop: int) -> Step:
    def step(sch: sl.Schedule) -> None:
        sch.compute_at("P", sch.get_loops("C")[0])
        sch.decompose_padding("P", sch.get_loops("P")[loop])

    return step


def two_in_lanes(sch: sl.Schedule) -> None:
    sch.compute_at("B", sch.get_loops("C")[1])
    sch.vectorize(sch.get_loops("C")[1])


def into_lanes(sch: sl.Schedule) -> None:
    sch.vectorize(sch.get_loops("C")[1])
    sch.compute_at("B", sch.get_loops("C")[1])


def consumer_into_lanes(sch: sl.Schedule) -> None:
    sch.vectorize(sch.get_loops("B")[1])
    sch.reverse_compute_at("C", sch.get_loops("B")[1])


def beside_lanes(sch: sl.Schedule) -> None:
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.vectorize(sch.get_loops("B")[1])
    sch.vectorize(sch.get_loops("C")[1])


def six_columns(i: Any, j: Any) -> list[Any]:
    return [i, j // 6, j % 6]


def pad_the_layout_of_a_cache(sch: sl.Schedule) -> None:
    copy = sch.cache_write("C", 0, "global")
    sch.reverse_compute_at(copy, sch.get_loops("C")[0])
    sch.transform_layout("C", ("write", 0), six_columns, pad_value=0.0)


def pad_the_layout_alone(sch: sl.Schedule) -> None:
    sch.transform_layout("B", ("write", 0), six_columns, pad_value=0.0)


def rows_in_blocks(then: Step) -> Step:
    """Rows of C are blocks, in whose loops other steps put others."""
    return after(lambda sch: sch.blockize(sch.get_loops("C")[1]), then)


def cache_in_rows(sch: sl.Schedule) -> None:
    sch.cache_read("C", 0, "global")


def rows_in_lanes(sch: sl.Schedule) -> None:
    sch.vectorize(sch.get_loops("C_o")[0])


def split_rows(sch: sl.Schedule) -> None:
    sch.split(sch.get_loops("C")[0], [None, 5])


def columns_first(sch: sl.Schedule) -> None:
    sch.reindex_cache_read("C", 0, "global", lambda i, j: (j, i))


def roll(sch: sl.Schedule) -> None:
    sch.compute_at("B", sch.get_loops("C")[0])
    sch.rolling_buffer("B", 0)


def roll_a_copy(sch: sl.Schedule) -> None:
    copy = sch.read_at(sch.get_loops("C")[1], sch.get_block("C"), 0, "local")
    sch.rolling_buffer(copy, 0)


def rows_of_tiles(sch: sl.Schedule) -> None:
    """Rows of the tiles of B that C reads, which overlap."""
    sch.compute_at("B", sch.get_loops("C")[1], preserve_unit_loops=True)
    sch.blockize(sch.get_loops("B")[3])


def pad(block: str, *multiples: int) -> Step:
    return lambda sch: sch.pad_einsum(block, multiples)


RIGHT: dict[str, tuple[Callable[[], list[Any]], Step]] = {
    "an epilogue that adds": (product(lambda c, bias, i, j: c[i, j] + bias[i, j]), fuse_epilogue),
    "the other way": (product(lambda c, bias, i, j: bias[j, i] * 2.0 + c[i, j]), fuse_epilogue),
    "parts of rows": (row_sums, partition("S", 0)),
    "parts of a sum without its initial value": (row_sums, decompose_and_partition),
    "padding of a tile": (padded, pad_below(1)),
    "padding": (padded, lambda sch: sch.decompose_padding("P", sch.get_loops("P")[0])),
    "lanes of two blocks": (chain, beside_lanes),
    "a padded layout": (chain, pad_the_layout_alone),
    "loops that share nothing": (siblings, merge("B", "C")),
    "a sum behind a whole sum": (two_sums, behind("C", "B", 0)),
    "a copy of what is new": (row_sums, lambda sch: sch.cache_write("S", 0, "global")),
    "a copy of a part": (
        chain,
        lambda sch: sch.read_at(sch.get_loops("C")[0], sch.get_block("C"), 0, "local"),
    ),
    "parts of a sum that do not fit": (row_sums, split_and_factor(1)),
    "a consumer that reads inputs in part": (shifted, behind("C", "B", 0)),
    "lanes of rows": (chain, rows_in_blocks(rows_in_lanes)),
    "a copy in rows": (chain, rows_in_blocks(cache_in_rows)),
    "another layout of a copy": (chain, columns_first),
    "a rolling buffer": (windows, roll),
    "padded rows of differences": (differences, pad("S", 3, 7)),
    "padded sums": (row_sums, pad("S", 3, 4)),
    "blocks of tiles that do not fit": (
        chain,
        after(split_rows, lambda sch: sch.blockize(sch.get_loops("C")[2])),
    ),
    "a consumer of a sum at each step": (
        product(lambda c, bias, i, j: c[i, j] + bias[i, j]),
        behind("D", "C", 2),
    ),
    "consumers of whole rows": (sums_of_squares, all_behind(0)),
    "blocks of rows that begin with 0": (later_rows, rows_of_a_producer),
    "a copy before tiles that do not fit": (
        reversed_rows,
        stored_in_reverse(after(copy_of_results, tiles_of_rows)),
    ),
    "a copy of tiles that do not fit": (later_rows, after(tiles_of_rows, copy_of_results)),
    "loops of parts": (
        chain,
        after(partition("C", 0), lambda sch: sch.parallel(sch.get_loops("B")[0])),
    ),
}

ANOTHER = "the epilogue is another function of what is reduced"
LANES = "TVM would keep one lane"
WRONG: dict[str, tuple[Callable[[], list[Any]], Step, str]] = {
    "transposed": (product(lambda c, bias, i, j: c[j, i] + bias[i, j]), fuse_epilogue, ANOTHER),
    "reversed": (product(lambda c, bias, i, j: c[8 - i, j] + bias[i, j]), fuse_epilogue, ANOTHER),
    "subtracted": (product(lambda c, bias, i, j: bias[i, j] - c[i, j]), fuse_epilogue, ANOTHER),
    "a difference": (product(lambda c, bias, i, j: c[i, j] - bias[i, j]), fuse_epilogue, ANOTHER),
    "of two elements": (product(lambda c, bias, i, j: c[i, j] + c[j, i]), fuse_epilogue, ANOTHER),
    "another beginning": (
        product(lambda c, bias, i, j: c[i, j] + bias[i, j], begin=1.0),
        fuse_epilogue,
        "not a sum that begins with 0",
    ),
    "parts of a sum": (row_sums, partition("S", 1), "use decompose_reduction first"),
    "parts of its tiles": (row_sums, partition_tiles, "use decompose_reduction first"),
    "padding of all tiles": (padded, pad_below(0), "a loop around the padding alone"),
    "two blocks in lanes": (chain, two_in_lanes, LANES),
    "a producer in lanes": (chain, into_lanes, LANES),
    "a consumer in lanes": (chain, consumer_into_lanes, LANES),
    "a padded layout below others": (chain, pad_the_layout_of_a_cache, "before compute_at"),
    "loops that pass on": (chain, merge("B", "C"), "which another one uses"),
    "loops around what passes on": (siblings, merge("B", "D"), "a statement between them"),
    "padding below others": (
        product(lambda c, bias, i, j: c[i, j] + bias[i, j]),
        after(behind("D", "C", 0), lambda sch: sch.pad_einsum("C", [2, 2, 2])),
        "use pad_einsum before compute_at",
    ),
    "a producer behind": (siblings, behind("B", "C", 0), "reads no result of another block"),
    "a sum of sums in part": (two_sums, behind("C", "B", 2), "would not be whole"),
    "consumers of parts of rows": (sums_of_squares, all_behind(1), "would not be whole when D"),
    "blocks of later rows": (
        later_rows,
        after(producer_at_its_consumer, rows_of_a_producer),
        r"variable v_i of block B is i \+ 1, and TVM would leave out the constant",
    ),
    "a copy of tiles in reverse that do not fit": (
        reversed_rows,
        stored_in_reverse(after(tiles_of_rows, copy_of_results)),
        "would copy more than C has; make the copy before split",
    ),
    "an update of a copy": (
        row_sums,
        after(apart, lambda sch: sch.cache_write("S_update", 0, "global")),
        "updates S in place",
    ),
    "an update below a loop": (
        row_sums,
        after(
            apart,
            lambda sch: sch.write_at(
                sch.get_loops("S_update")[0], sch.get_block("S_update"), 0, "local"
            ),
        ),
        "updates S in place",
    ),
    "what an update reads": (
        row_sums,
        after(
            apart,
            lambda sch: sch.read_at(
                sch.get_loops("S_update")[0], sch.get_block("S_update"), 0, "local"
            ),
        ),
        "writes S too",
    ),
    "the first of two writers": (
        row_sums,
        after(apart, lambda sch: sch.reindex("S_init", ("write", 0))),
        "in the same loops uses S too|stores in S too",
    ),
    "what is outside": (
        padded,
        lambda sch: sch.read_at(sch.get_loops("P")[1], sch.get_block("P"), 0, "local"),
        "leaves out a part of its region of A",
    ),
    "rows of a tile that are outside": (
        chain,
        after(
            lambda sch: sch.pad_einsum("C", [3, 1]),
            after(
                lambda sch: sch.reverse_compute_inline("C_pad"),
                lambda sch: sch.reindex("C", ("write", 0)),
            ),
        ),
        "leaves out a part of its region of C",
    ),
    "what is read in part": (
        side_by_side,
        after(
            lambda sch: sch.cache_read("C", 0, "global"),
            lambda sch: sch.reverse_compute_at("C", sch.get_loops("A_global")[0]),
        ),
        "reads A_global under a condition",
    ),
    "parts of rows that do not fit": (row_sums, split_and_factor(0), "use rfactor before split"),
    "a copy that others in the loops need": (
        chain,
        after(
            lambda sch: sch.compute_at("B", sch.get_loops("C")[0]),
            lambda sch: sch.reindex("B", ("write", 0)),
        ),
        "in the same loops uses B too",
    ),
    "lanes of rows with copies": (
        chain,
        rows_in_blocks(after(cache_in_rows, rows_in_lanes)),
        LANES,
    ),
    "copies in lanes of rows": (
        chain,
        rows_in_blocks(after(rows_in_lanes, cache_in_rows)),
        LANES,
    ),
    "another layout of tiles that do not fit": (
        chain,
        after(split_rows, columns_first),
        "leaves out a part of its region of B",
    ),
    "a rolling copy": (windows, roll_a_copy, "use rolling_buffer before read_at"),
    "blocks of tiles that overlap": (windows, rows_of_tiles, "do this before compute_at"),
    "padded sums of differences": (differences, pad("S", 1, 4), "no sum of products"),
    "padded divisors": (quotients, pad("C", 4), "divides integers"),
    "padding inside of a block": (chain, rows_in_blocks(pad("C", 3)), "before blockize"),
    "blocks after parts of a loop": (
        chain,
        after(partition("C", 0), lambda sch: sch.cache_write("B", 0, "global")),
        "after loop_partition TVM does not know",
    ),
    "blocks after indices": (
        padded,
        after(
            lambda sch: sch.cache_index("P", "global"),
            lambda sch: sch.compute_at("P", sch.get_loops("C")[0]),
        ),
        "after cache_index TVM does not know",
    ),
}


def run(mod: Any, workload: sl.Workload) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    tensors = [rng.standard_normal(one.shape, dtype="float32") for one in workload.args]
    tensors[-1][...] = np.nan
    sl.Target("cpu").build(mod).main(*tensors)
    return tensors[-1]


@pytest.mark.parametrize("case", RIGHT)
def test_right_forms_compute_the_same(case: str) -> None:
    make, step = RIGHT[case]
    sch = sl.Schedule(sl.workloads.as_workload(make()))
    step(sch)
    expected = run(sch.workload.mod, sch.workload)
    np.testing.assert_allclose(run(sch.mod, sch.workload), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("case", WRONG)
def test_other_forms_are_refused_with_what_to_do_instead(case: str) -> None:
    make, step, why = WRONG[case]
    sch = sl.Schedule(sl.workloads.as_workload(make()))
    with pytest.raises(sl.InstructionError, match=why):
        step(sch)
