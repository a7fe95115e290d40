"""Where a block is computed."""

from __future__ import annotations

from schedlang.language.schedule import Schedule
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import chain, matmul, padded, window


def _compute_at_the_first_place(sch: Schedule) -> None:
    copy = sch.cache_read("C", "B", "global")
    i, _, _ = sch.get_loops("C")
    sch.compute_at(copy, i, True, index=0)


def _compute_at_a_drawn_place(sch: Schedule) -> None:
    place = sch.sample_compute_location("B", decision=0)
    sch.compute_at("B", place)


def _compute_at_root(sch: Schedule) -> None:
    sch.compute_at("B", sch.sample_compute_location("B", decision=-1))


def _compute_at_inlined(sch: Schedule) -> None:
    sch.compute_at("B", sch.sample_compute_location("B", decision=-2))


CASES = [
    Case("compute_at", chain, lambda sch: sch.compute_at("B", sch.get_loops("C")[0])),
    Case("compute_at_the_first_place", matmul, _compute_at_the_first_place),
    Case("compute_at_a_drawn_place", window, _compute_at_a_drawn_place),
    Case("compute_at_root", chain, _compute_at_root),
    Case("compute_at_inlined", chain, _compute_at_inlined),
    Case(
        "reverse_compute_at",
        chain,
        lambda sch: sch.reverse_compute_at("C", sch.get_loops("B")[1]),
    ),
    Case("compute_inline", chain, lambda sch: sch.compute_inline("B")),
    Case("reverse_compute_inline", chain, lambda sch: sch.reverse_compute_inline("C")),
]

MISUSES = [
    Misuse(
        "compute_at",
        chain,
        lambda sch: sch.compute_at("C", sch.get_loops("B")[0]),
        "block=b3 (C)",
        "block C is an output block",
        'with T.sblock("C"):',
    ),
    Misuse(
        "compute_at",
        chain,
        lambda sch: sch.compute_at("B", 0),
        "loop=0",
        "takes a loop .*, not int 0",
    ),
    Misuse(
        "reverse_compute_at",
        matmul,
        lambda sch: sch.reverse_compute_at("C", sch.get_loops("C")[0]),
        "block=b4 (C)",
        "under the same block scope, and loop not to be the ancestor of block",
        "for i in range(16):",
    ),
    Misuse(
        "compute_inline",
        chain,
        lambda sch: sch.compute_inline("C"),
        "block=b0 (C)",
        "block C is an output block",
        'with T.sblock("C"):',
    ),
    Misuse(
        "compute_inline",
        matmul,
        lambda sch: sch.compute_inline("C"),
        "block=b0 (C)",
        "block has init statement: C",
        'with T.sblock("C"):',
    ),
    Misuse(
        "reverse_compute_inline",
        padded,
        lambda sch: sch.reverse_compute_inline("B"),
        "block=b0 (B)",
        "only allowed to read a single buffer region",
        'with T.sblock("B"):',
    ),
]
