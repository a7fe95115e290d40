"""Cases of sampling; they use the drawn values, so that the golden texts show them."""

from __future__ import annotations

from schedlang.distributions import Categorical, PerfectTile
from schedlang.language.schedule import Schedule
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import chain, elementwise, matmul


def _sample(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    lanes = sch.sample(Categorical((2, 4, 8), (0.5, 0.25, 0.25)), name="lanes", decision=4)
    outer, inner = sch.sample(PerfectTile(16, 2), decision=(2, 8))
    sch.split(j, [None, lanes])
    sch.split(i, [outer, inner])


def _sample_categorical(sch: Schedule) -> None:
    factor = sch.sample_categorical([2, 4, 8], [0.5, 0.25, 0.25], decision=8)
    sch.split(sch.get_loops("B")[0], [None, factor])


def _sample_perfect_tile(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    sch.split(i, sch.sample_perfect_tile(i, n=3, decision=[2, 2, 4]))
    prior = {-1: {8: 3.0, 16: 1.0}}
    factors = sch.sample_perfect_tile(j, 2, 16, [2, 8], weights=prior, name="columns")
    sch.split(j, factors)


def _sample_imperfect_tile(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    sch.split(i, sch.sample_imperfect_tile(i, 2, decision=[3, 6]))
    prior = {-1: {5: 3.0}}
    columns = sch.sample_imperfect_tile(
        j, 3, 8, [1, 4, 5], max_waste=0.3, weights=prior, waste_penalty=2, name="columns"
    )
    sch.split(j, columns)


def _sample_partitioned_tile(sch: Schedule) -> None:
    i, _ = sch.get_loops("B")
    factors = sch.sample_partitioned_tile(
        i, 3, partition_pos=1, innerpart_factor=4, decision=[2, 2, 4]
    )
    sch.split(i, factors)


def _sample_compute_location(sch: Schedule) -> None:
    sch.compute_at("B", sch.sample_compute_location("B", decision=1))


def _sample_loop_order(sch: Schedule) -> None:
    i, j, k = sch.get_loops("C")
    sch.reorder(*sch.sample_loop_order([i, j, k], decision=[2, 0, 1]))


def _sample_int_range(sch: Schedule) -> None:
    factor = sch.sample_int_range(1, 10, 3, decision=4)
    sch.split(sch.get_loops("B")[0], [None, factor])


def _sample_subset(sch: Schedule) -> None:
    first, second, third = sch.sample_subset([3, 5, 7], min_size=1, decision=[3, 7])
    sch.annotate("B", "taken", [first, second, third])


def _draw_without_a_decision(sch: Schedule) -> None:
    for loop in sch.get_loops("B"):
        sch.split(loop, sch.sample_perfect_tile(loop, n=2))


CASES = [
    Case("sample", elementwise, _sample),
    Case("sample_categorical", elementwise, _sample_categorical),
    Case("sample_perfect_tile", elementwise, _sample_perfect_tile),
    Case("sample_imperfect_tile", elementwise, _sample_imperfect_tile),
    Case("sample_partitioned_tile", elementwise, _sample_partitioned_tile),
    Case("sample_compute_location", chain, _sample_compute_location),
    Case("sample_loop_order", matmul, _sample_loop_order),
    Case("sample_int_range", elementwise, _sample_int_range),
    Case("sample_subset", elementwise, _sample_subset),
    Case("sample_twice_without_a_decision", elementwise, _draw_without_a_decision),
]

MISUSES = [
    Misuse(
        "sample",
        elementwise,
        lambda sch: sch.sample([1, 2]),
        "distribution=[1, 2]",
        "takes a Distribution, not list",
    ),
    Misuse(
        "sample",
        elementwise,
        lambda sch: sch.sample(Categorical((2, 4)), decision=3),
        "distribution=",
        "decision 3 of 'sample' is not in the support",
    ),
    Misuse(
        "sample_categorical",
        elementwise,
        lambda sch: sch.sample_categorical([2, 4], [0.5]),
        "probs=[0.5]",
        "must hold 2 weights, one for each candidate",
    ),
    Misuse(
        "sample_categorical",
        elementwise,
        lambda sch: sch.sample_categorical([2, 4], decision=3),
        "candidates=[2, 4]",
        "decision 3 of 'sample_categorical' is not in the support",
    ),
    Misuse(
        "sample_perfect_tile",
        elementwise,
        lambda sch: sch.sample_perfect_tile(sch.get_loops("B")[0], 2, decision=[3, 5]),
        "loop=l1 (i in 16)",
        r"decision \(3, 5\) of 'sample_perfect_tile' is not in the support",
    ),
    Misuse(
        "sample_perfect_tile",
        elementwise,
        lambda sch: sch.sample_perfect_tile(16, 2),
        "loop=16",
        "takes a loop .*, not int 16",
    ),
    Misuse(
        "sample_perfect_tile",
        elementwise,
        lambda sch: sch.sample_perfect_tile(sch.get_loops("B")[0], 0),
        "n=0",
        "n=0.: must be an int from 1 to 16",
    ),
    Misuse(
        "sample_perfect_tile",
        elementwise,
        lambda sch: sch.sample_perfect_tile(sch.get_loops("B")[0], 2, weights={5: {1: 1.0}}),
        "weights=[[5, [[1, 1.0]]]]",
        "level 5 must be an int from -2 to 1",
    ),
    Misuse(
        "sample_perfect_tile",
        elementwise,
        lambda sch: sch.sample_perfect_tile(sch.get_loops("B")[0], 2, weights=3),
        "weights=3",
        "takes {level: {factor: weight}}, not int 3",
    ),
    Misuse(
        "sample_perfect_tile",
        elementwise,
        lambda sch: sch.sample_perfect_tile(sch.get_loops("B")[0], 2, weights={"inner": 3}),
        "weights={'inner': 3}",
        "takes {level: {factor: weight}}, not dict",
    ),
    Misuse(
        "sample_imperfect_tile",
        elementwise,
        lambda sch: sch.sample_imperfect_tile(sch.get_loops("B")[0], 2, decision=[4, 6]),
        "loop=l1 (i in 16)",
        r"decision \(4, 6\) of 'sample_imperfect_tile' is not in the support",
    ),
    Misuse(
        "sample_imperfect_tile",
        elementwise,
        lambda sch: sch.sample_imperfect_tile(sch.get_loops("B")[0], 2, max_waste=1.5),
        "max_waste=1.5",
        "must be a fraction of the extent, 0 to 1",
    ),
    Misuse(
        "sample_imperfect_tile",
        elementwise,
        lambda sch: sch.sample_imperfect_tile(sch.get_loops("B")[0], 1),
        "n=1",
        "n=1.: must be an int from 2 to 16",
    ),
    Misuse(
        "sample_partitioned_tile",
        elementwise,
        lambda sch: sch.sample_partitioned_tile(sch.get_loops("B")[0], 2, 1, 5),
        "innerpart_factor=5",
        "must divide the extent 16; pad the loop or choose another factor",
    ),
    Misuse(
        "sample_compute_location",
        matmul,
        lambda sch: sch.sample_compute_location("C", decision=4),
        "block=b0 (C)",
        "decision 4 of 'sample_compute_location' is not in the support",
    ),
    Misuse(
        "sample_loop_order",
        elementwise,
        lambda sch: sch.sample_loop_order("ij"),
        "loops='ij'",
        "takes a list of loops, not str 'ij'",
    ),
    Misuse(
        "sample_loop_order",
        elementwise,
        lambda sch: sch.sample_loop_order([]),
        "loops=[]",
        "must be an int from 1 to",
    ),
    Misuse(
        "sample_loop_order",
        elementwise,
        lambda sch: sch.sample_loop_order(sch.get_loops("B"), decision=[0, 0]),
        "loops=[l1 (i in 16), l2 (j in 16)]",
        r"decision \(0, 0\) of 'sample_loop_order' is not in the support",
    ),
    Misuse(
        "sample_int_range",
        elementwise,
        lambda sch: sch.sample_int_range(8, 1),
        "stop=1",
        r"range\(8, 1, 1\) is empty",
    ),
    Misuse(
        "sample_int_range",
        elementwise,
        lambda sch: sch.sample_int_range(1, 8, 2, decision=2),
        "step=2",
        "decision 2 of 'sample_int_range' is not in the support",
    ),
    Misuse(
        "sample_subset",
        elementwise,
        lambda sch: sch.sample_subset([1, 2], min_size=3),
        "min_size=3",
        "must be an int from 0 to 2",
    ),
    Misuse(
        "sample_subset",
        elementwise,
        lambda sch: sch.sample_subset([1, 1]),
        "items=[1, 1]",
        "must be distinct, but 1 occurs twice",
    ),
    Misuse(
        "sample_subset",
        elementwise,
        lambda sch: sch.sample_subset("ab"),
        "items='ab'",
        "takes a list of integers, not str 'ab'",
    ),
    Misuse(
        "sample_subset",
        elementwise,
        lambda sch: sch.sample_subset([1, 2], name=3),
        "items=[1, 2]",
        "name is a string, not 3",
    ),
    Misuse(
        "sample_subset",
        elementwise,
        lambda sch: sch.sample_subset([1, 2], decision=[0, 1]),
        "items=[1, 2]",
        r"decision \(0, 1\) of 'sample_subset' is not in the support",
    ),
]
