"""Splitting, factoring and finishing reductions."""

from __future__ import annotations

from schedlang.language.schedule import Schedule
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import (
    biased_matmul,
    chain,
    elementwise,
    matmul,
    relu_matmul,
    row_sum,
)


def _decompose_reduction(sch: Schedule) -> None:
    _, _, k = sch.get_loops("C")
    sch.decompose_reduction("C", k)


def _rfactor(sch: Schedule) -> None:
    _, k = sch.get_loops("B")
    outer, _ = sch.split(k, [4, None])
    sch.rfactor(outer, 0)


CASES = [
    Case("decompose_reduction", matmul, _decompose_reduction),
    Case("rfactor", row_sum, _rfactor),
    Case(
        "fuse_reduction_epilogue",
        biased_matmul,
        lambda sch: sch.fuse_reduction_epilogue("C", "D"),
    ),
]

MISUSES = [
    Misuse(
        "decompose_reduction",
        elementwise,
        lambda sch: sch.decompose_reduction("B", sch.get_loops("B")[0]),
        "block=b3 (B)",
        "block B is not a reduction block .* condition #1: The block has the `init` statement",
        'with T.sblock("B"):',
    ),
    Misuse(
        "decompose_reduction",
        biased_matmul,
        lambda sch: sch.decompose_reduction("C", sch.get_loops("D")[0]),
        "loop=l1 (i in 16)",
        "loop i of decompose_reduction is required to be an ancestor of block C",
        'with T.sblock("C"):',
    ),
    Misuse(
        "rfactor",
        row_sum,
        lambda sch: sch.rfactor(sch.get_loops("B")[0], 0),
        "loop=l1 (i in 16)",
        "loop to be applied rfactor is i.*block's data parallel block iters touch this loop",
        "for i in range(16):",
    ),
    Misuse(
        "rfactor",
        row_sum,
        lambda sch: sch.rfactor(sch.get_loops("B")[1], 7),
        "factor_axis=7",
        r"required to be in \[-2, 1\] for rfactor",
    ),
    Misuse(
        "fuse_reduction_epilogue",
        relu_matmul,
        lambda sch: sch.fuse_reduction_epilogue("C", "D"),
        "epilogue_block=b1 (D)",
        "TVM would apply this epilogue's minimum or maximum at every step",
    ),
    Misuse(
        "fuse_reduction_epilogue",
        chain,
        lambda sch: sch.fuse_reduction_epilogue("B", "C"),
        "reduction_block=b0 (B)",
        "block B is not a reduction block",
        'with T.sblock("B"):',
    ),
    Misuse(
        "fuse_reduction_epilogue",
        biased_matmul,
        lambda sch: sch.fuse_reduction_epilogue("C", 1),
        "epilogue_block=1",
        "takes a block .*, not int 1",
    ),
]
