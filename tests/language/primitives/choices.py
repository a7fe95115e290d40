"""Structural forks, where the host program takes another branch, and constraints."""

from __future__ import annotations

from schedlang.language.schedule import Schedule
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import elementwise


def _choose(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    if sch.choose("order", ("rows first", "columns first"), decision=1) == "columns first":
        sch.reorder(j, i)
    if sch.choose("parallel", [True, False], [0.75, 0.25], decision=0):
        sch.parallel(sch.get_loops("B")[0])


def _choose_twice_at_one_name(sch: Schedule) -> None:
    for loop in sch.get_loops("B"):
        apply = sch.choose("kind", [sch.unroll, sch.vectorize, None], decision=0)
        if apply is not None:
            apply(loop)


def _require(sch: Schedule) -> None:
    i, _ = sch.get_loops("B")
    outer, inner = sch.sample_perfect_tile(i, n=2, decision=[4, 4])
    sch.require((inner * 4 <= 16) & (outer > 1), "a tile fits a cache line")
    sch.split(i, [outer, inner])


CASES = [
    Case("require", elementwise, _require),
    Case("choose", elementwise, _choose),
    Case("choose_between_functions", elementwise, _choose_twice_at_one_name),
]

MISUSES = [
    Misuse(
        "require",
        elementwise,
        lambda sch: sch.require(sch.sample_int_range(1, 3), "true"),
        "condition=v0",
        "argument 'condition' takes a comparison or a bool, not IntRV",
    ),
    Misuse(
        "require",
        elementwise,
        lambda sch: sch.require(sch.sample_int_range(1, 3) < 2.5, "small"),
        "why='small'",
        "argument 'condition': compares with a value that is no integer",
    ),
    Misuse(
        "choose",
        elementwise,
        lambda sch: sch.choose("a", []),
        "options=[]",
        "must hold at least one value",
    ),
    Misuse(
        "choose",
        elementwise,
        lambda sch: sch.choose("a", [1, 2], decision=2),
        "options=[1, 2]",
        r"option 2 of 'a' is not in 0\.\.1",
    ),
    Misuse(
        "choose",
        elementwise,
        lambda sch: sch.choose("a", [1, 2], probs=[1]),
        "probs=[1]",
        "must hold 2 weights, one for each candidate",
    ),
    Misuse(
        "choose",
        elementwise,
        lambda sch: sch.choose("a", 3),
        "options=3",
        "argument 'options' takes a list, not 3",
    ),
    Misuse(
        "choose",
        elementwise,
        lambda sch: sch.choose(["a"], [1, 2]),
        "name=['a']",
        r"argument 'name' takes a string, not \['a'\]",
    ),
    Misuse(
        "choose",
        elementwise,
        lambda sch: sch.choose("a", [1, 2], probs=["x", 2]),
        "probs=['x', 2]",
        "a weight must be a number",
    ),
]
