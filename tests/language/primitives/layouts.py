"""Layouts of buffers and of blocks, and padding."""

from __future__ import annotations

from schedlang.language.schedule import Schedule
from schedlang.workloads.workload import Workload
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import (
    chain,
    elementwise,
    integer_chain,
    matmul,
    padded,
    recurrence,
)


def _ragged_matmul() -> Workload:
    return matmul(15)


def _transform_layout_by_a_drawn_factor(sch: Schedule) -> None:
    i, _ = sch.get_loops("B")
    _, width = sch.sample_perfect_tile(i, 2, decision=[4, 4])
    sch.transform_layout("B", "B", lambda i, j: (i // width, j, i % width))


def _transform_layout_without_variables(sch: Schedule) -> None:
    sch.transform_layout("first", "B", lambda i: (i // 4, i % 4))


def _transform_layout_with_padding(sch: Schedule) -> None:
    sch.transform_layout("B", ("write", 0), lambda i, j: (i // 5, j, i % 5), pad_value=1.5)


def _transform_layout_with_a_padding_map(sch: Schedule) -> None:
    sch.transform_layout(
        "B", "B", lambda i, j: (i // 5, j, i % 5), pad_value=lambda outer, j, inner: inner
    )


CASES = [
    Case(
        "transform_layout",
        chain,
        lambda sch: sch.transform_layout("B", "B", lambda i, j: (i // 4, j, i % 4)),
    ),
    Case("transform_layout_by_a_drawn_factor", chain, _transform_layout_by_a_drawn_factor),
    Case(
        "transform_layout_of_a_block_without_variables",
        recurrence,
        _transform_layout_without_variables,
    ),
    Case("transform_layout_with_padding", chain, _transform_layout_with_padding),
    Case(
        "transform_layout_with_a_padding_map",
        integer_chain,
        _transform_layout_with_a_padding_map,
    ),
    Case(
        "transform_block_layout",
        elementwise,
        lambda sch: sch.transform_block_layout("B", lambda i, j: (i * 16 + j,)),
    ),
    Case("pad_einsum", _ragged_matmul, lambda sch: sch.pad_einsum("C", [16, 16, 16])),
    Case(
        "decompose_padding",
        padded,
        lambda sch: sch.decompose_padding("B", sch.get_loops("B")[0]),
    ),
]

MISUSES = [
    Misuse(
        "transform_layout",
        chain,
        lambda sch: sch.transform_layout("B", "B", lambda i: (i,)),
        "index_map=lambda i: (i,)",
        "takes 1 indices, but buffer B has 2 dimensions",
    ),
    Misuse(
        "transform_layout",
        chain,
        lambda sch: sch.transform_layout("B", "B", lambda i, j: (i // 5, j, i % 5)),
        "index_map=lambda i, j: (i // 5, j, i % 5)",
        "this would introduce padding",
    ),
    Misuse(
        "transform_layout",
        chain,
        lambda sch: sch.transform_layout("B", "B", lambda i, j: (i / 4, j)),
        "index_map=<lambda>",
        "i / 4: these are integers; divide with //",
    ),
    Misuse(
        "transform_layout",
        chain,
        lambda sch: sch.transform_layout("B", ("write", 3), lambda i, j: (j, i)),
        "buffer=['write', 3]",
        "block B has 1 write buffers, there is no number 3",
    ),
    Misuse(
        "transform_layout",
        chain,
        lambda sch: sch.transform_layout("B", "B", lambda i, j: (j, i), pad_value="zero"),
        "pad_value='zero'",
        "takes a number or a function of indices, not str 'zero'",
    ),
    Misuse(
        "transform_layout",
        integer_chain,
        lambda sch: sch.transform_layout("B", "B", lambda i, j: (i // 5, j, i % 5), pad_value=0.5),
        "pad_value=0.5",
        "takes an integer for a buffer of int32, not 0.5",
    ),
    Misuse(
        "transform_layout",
        chain,
        lambda sch: sch.transform_layout("B", "B", lambda i, j: (i.missing, j)),
        "index_map=<lambda>",
        "AttributeError: 'IndexVar' object has no attribute 'missing'",
    ),
    Misuse(
        "transform_block_layout",
        elementwise,
        lambda sch: sch.transform_block_layout("B", lambda i, j: (i,)),
        "index_map=lambda i, j: (i,)",
        "is not bijective affine",
    ),
    Misuse(
        "transform_block_layout",
        elementwise,
        lambda sch: sch.transform_block_layout("B", lambda i: (i,)),
        "index_map=lambda i: (i,)",
        "takes 1 indices, but block B has 2 variables: vi, vj",
    ),
    Misuse(
        "pad_einsum",
        _ragged_matmul,
        lambda sch: sch.pad_einsum("C", [16, 16]),
        "padding=[16, 16]",
        "should be a list of 3 positive integers",
        "C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]",
    ),
    Misuse(
        "pad_einsum",
        padded,
        lambda sch: sch.pad_einsum("B", [16]),
        "block=b0 (B)",
        "block B not a computation of Einsum pattern",
        'with T.sblock("B"):',
    ),
    Misuse(
        "decompose_padding",
        elementwise,
        lambda sch: sch.decompose_padding("B", sch.get_loops("B")[0]),
        "block=b3 (B)",
        "block B to match padding pattern",
        "B[vi, vj] = A[vi, vj] * T.float32(2.0)",
    ),
]
