"""Reshaping loops, and saying how they run."""

from __future__ import annotations

from schedlang.expressions import maximum, minimum
from schedlang.language.schedule import Schedule
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import chain, elementwise, matmul, row_sum, siblings

GPU = "needs GPU threads"


def _split_unevenly(sch: Schedule) -> None:
    i, _ = sch.get_loops("B")
    sch.split(i, [3, None])


def _split_by_a_drawn_factor(sch: Schedule) -> None:
    i, _ = sch.get_loops("B")
    outer, inner = sch.sample_perfect_tile(i, 2, decision=[2, 8])
    sch.split(i, [outer * 2, inner // 2])


def _split_by_an_expression(sch: Schedule) -> None:
    i, _ = sch.get_loops("B")
    outer, inner = sch.sample_perfect_tile(i, 2, decision=[2, 8])
    sch.split(i, [maximum(outer, inner - 4), minimum(inner, 4)])


def _merge(sch: Schedule) -> None:
    sch.merge(sch.get_loops("B")[0], sch.get_loops("C")[0])


def _reorder(sch: Schedule) -> None:
    i, j, k = sch.get_loops("C")
    sch.reorder(k, i, j)


def _bind(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    sch.bind(i, "blockIdx.x")
    sch.bind(j, "threadIdx.x")


def _overlap(sch: Schedule) -> None:
    sch.split(sch.get_loops("B")[0], [None, 6])
    sch.overlap_last_tiles()


CASES = [
    Case(
        "split",
        elementwise,
        lambda sch: sch.split(sch.get_loops("B")[0], [4, None]),
    ),
    Case("split_unevenly", elementwise, _split_unevenly),
    Case(
        "split_by_a_drawn_factor",
        elementwise,
        _split_by_a_drawn_factor,
        no_tvm_file="Stringifying is not supported",
    ),
    Case(
        "split_by_an_expression",
        elementwise,
        _split_by_an_expression,
        no_tvm_file="Stringifying is not supported",
    ),
    Case("fuse", elementwise, lambda sch: sch.fuse(*sch.get_loops("B"))),
    Case("merge", siblings, _merge),
    Case(
        "loop_partition",
        elementwise,
        lambda sch: sch.loop_partition(sch.get_loops("B")[0], [4, None]),
    ),
    Case("reorder", matmul, _reorder),
    Case(
        "reorder_block_iter_var",
        matmul,
        lambda sch: sch.reorder_block_iter_var("C", [2, 0, 1]),
    ),
    Case("add_unit_loop", elementwise, lambda sch: sch.add_unit_loop("B")),
    Case("parallel", elementwise, lambda sch: sch.parallel(sch.get_loops("B")[0])),
    Case("vectorize", elementwise, lambda sch: sch.vectorize(sch.get_loops("B")[1])),
    Case("bind", elementwise, _bind, not_run=GPU),
    Case("unroll", elementwise, lambda sch: sch.unroll(sch.get_loops("B")[1])),
    Case(
        "overlap_last_tiles",
        elementwise,
        _overlap,
        no_tvm_trace="overlap_last_tiles",
        no_tvm_file="overlap_last_tiles",
    ),
]


def _other(sch: Schedule) -> Schedule:
    return Schedule(sch.workload)


MISUSES = [
    Misuse(
        "split",
        elementwise,
        lambda sch: sch.split("i", [4, 4]),
        "loop='i'",
        "argument 'loop' takes a loop .*, not str 'i'",
    ),
    Misuse(
        "split",
        elementwise,
        lambda sch: sch.split(sch.get_loops("B"), [4, 4]),
        "loop=[l1, l2]",
        "argument 'loop' takes a loop .*get_loops returns a list: pass one of them",
    ),
    Misuse(
        "split",
        elementwise,
        lambda sch: sch.split(sch.get_loops("B")[0], [4, "4"]),
        "factors=[4, '4']",
        "argument 'factors' takes an integer .*, not str '4'",
    ),
    Misuse(
        "split",
        elementwise,
        lambda sch: sch.split(_other(sch).get_loops("B")[0], [4, 4]),
        "loop=l1",
        "l1 is a handle of another schedule",
    ),
    Misuse(
        "split",
        elementwise,
        lambda sch: sch.split(sch.get_loops("B")[0], [3, 4]),
        "factors=[3, 4]",
        "product of factors is not larger than or equal to the extent of loop i",
        "for i in range(16):",
    ),
    Misuse(
        "split",
        elementwise,
        lambda sch: sch.split(sch.get_loops("B")[0], [None, None]),
        "factors=[None, None]",
        "Only one factor can be specified as -1 or none",
    ),
    Misuse(
        "fuse",
        siblings,
        lambda sch: sch.fuse(sch.get_loops("B")[0], sch.get_loops("C")[0]),
        "loops=[l1 (i in 16), l4 (i in 16)]",
        "outer loop i is not the parent of the inner loop i",
        "for i in range(16):",
    ),
    Misuse(
        "merge",
        matmul,
        lambda sch: sch.merge(*sch.get_loops("C")[:2]),
        "loops=[l1 (i in 16), l2 (j in 16)]",
        "nesting depth must be same",
    ),
    Misuse(
        "loop_partition",
        elementwise,
        lambda sch: sch.loop_partition(sch.get_loops("B")[0], [10, 10]),
        "factors=[10, 10]",
        "sum of factors is larger than or equal to the extent of loop i",
        "for i in range(16):",
    ),
    Misuse(
        "reorder",
        elementwise,
        lambda sch: sch.reorder(*sch.get_loops("B")[:1] * 2),
        "loops=[l1 (i in 16), l1 (i in 16)]",
        "Loop i appears in the input array for multiple times",
        "for i in range(16):",
    ),
    Misuse(
        "reorder_block_iter_var",
        matmul,
        lambda sch: sch.reorder_block_iter_var("C", [0, 1]),
        "new_order=[0, 1]",
        r"index order \(0, 1\) is not a valid permutation of .* in block C",
        "vk = T.axis.reduce(16, k)",
    ),
    Misuse(
        "add_unit_loop",
        elementwise,
        lambda sch: sch.add_unit_loop(3),
        "block_or_loop=3",
        "takes a block or a loop, not int 3",
    ),
    Misuse(
        "parallel",
        row_sum,
        lambda sch: sch.parallel(sch.get_loops("B")[1]),
        "loop=l2 (k in 16)",
        "not a data parallel block iter",
        "vk = T.axis.reduce(16, k)",
    ),
    Misuse(
        "vectorize",
        row_sum,
        lambda sch: sch.vectorize(sch.get_loops("B")[1]),
        "loop=l2 (k in 16)",
        "not a data parallel block iter",
        "vk = T.axis.reduce(16, k)",
    ),
    Misuse(
        "bind",
        elementwise,
        lambda sch: sch.bind(sch.get_loops("B")[0], "threadIdx.w"),
        "thread_axis='threadIdx.w'",
        "thread_axis must be blockIdx, threadIdx or vthread with .x, .y or .z",
    ),
    Misuse(
        "unroll",
        elementwise,
        lambda sch: sch.unroll(sch.get_block("B")),
        "loop=b0",
        "argument 'loop' takes a loop .*, not BlockRV b0",
    ),
    Misuse(
        "unroll",
        chain,
        lambda sch: sch.unroll(_gone(sch)),
        "loop=l1",
        "The loop no longer exists in the IRModule",
    ),
]


def _gone(sch: Schedule) -> object:
    """A loop that splitting took away."""
    i, _ = sch.get_loops("B")
    sch.split(i, [4, 4])
    return i
