"""Properties of buffers."""

from __future__ import annotations

from schedlang.expressions import IntExpr, maximum, minimum
from schedlang.language.schedule import Schedule
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import chain, elementwise, gather, window


def _rolling_buffer(sch: Schedule) -> None:
    i, _ = sch.get_loops("C")
    outer, _ = sch.split(i, [4, None])
    sch.compute_at("B", outer)
    sch.rolling_buffer("B", 0)


def _neighbours(i: IntExpr, j: IntExpr) -> tuple[object, object]:
    return (maximum(i - 1, 0), minimum(i + 2, 16)), j


CASES = [
    Case("storage_align", chain, lambda sch: sch.storage_align("B", 0, 0, 32, 4)),
    Case(
        "set_scope",
        chain,
        lambda sch: sch.set_scope("B", "B", "shared"),
        not_run="shared memory is on GPUs",
    ),
    Case(
        "set_dtype",
        chain,
        lambda sch: sch.set_dtype("B", 0, "float16"),
        not_run="half precision gives other numbers",
    ),
    Case("rolling_buffer", window, _rolling_buffer),
    Case(
        "hide_buffer_access",
        gather,
        lambda sch: sch.hide_buffer_access("B", "read", [1]),
        not_run="unsafe: TVM no longer knows all that the block reads",
    ),
    Case(
        "annotate_buffer_access",
        elementwise,
        lambda sch: sch.annotate_buffer_access("B", 0, "read", _neighbours),
        not_run="unsafe: TVM believes the region that it is told",
        no_tvm_file="schedlang has no instruction 'AnnotateBufferAccess'",
    ),
]

MISUSES = [
    Misuse(
        "storage_align",
        chain,
        lambda sch: sch.storage_align("B", 0, 7, 32, 4),
        "axis=7",
        r"B, has 2 dimension.*the input `axis` is 7, which is out of the expected range",
    ),
    Misuse(
        "storage_align",
        chain,
        lambda sch: sch.storage_align("C", 0, 0, 32, 4),
        "block=b0 (C)",
        "buffer C is not allocated by a block",
    ),
    Misuse(
        "set_scope",
        chain,
        lambda sch: sch.set_scope("C", "C", "shared"),
        "block=b0 (C)",
        "buffer C is not allocated by a block",
    ),
    Misuse(
        "set_scope",
        chain,
        lambda sch: sch.set_scope("B", "B", "fast"),
        "storage_scope='fast'",
        'storage scope "fast" is invalid',
    ),
    Misuse(
        "set_dtype",
        chain,
        lambda sch: sch.set_dtype("C", 0, "float16"),
        "block=b0 (C)",
        "buffer C is not allocated by a block",
    ),
    Misuse(
        "rolling_buffer",
        window,
        lambda sch: sch.rolling_buffer("C", 0),
        "block=b0 (C)",
        "block C is an output block",
        'with T.sblock("C"):',
    ),
    Misuse(
        "rolling_buffer",
        window,
        lambda sch: sch.rolling_buffer("B", 0),
        "block=b0 (B)",
        "block B should be tiled",
        'with T.sblock("B"):',
    ),
    Misuse(
        "hide_buffer_access",
        gather,
        lambda sch: sch.hide_buffer_access("B", "input", [1]),
        "buf_type='input'",
        "should either be 'read' or 'write', got input instead",
    ),
    Misuse(
        "hide_buffer_access",
        gather,
        lambda sch: sch.hide_buffer_access("B", "read", 1),
        "buf_index_array=1",
        "takes a list of integers, not int 1",
    ),
    Misuse(
        "hide_buffer_access",
        gather,
        lambda sch: sch.hide_buffer_access("B", "read", [5]),
        "buf_index_array=[5]",
        "a list of integers between 0 and 1, got 5 instead",
    ),
    Misuse(
        "annotate_buffer_access",
        elementwise,
        lambda sch: sch.annotate_buffer_access("B", 0, "in", lambda i, j: (i, j)),
        "buffer_type='in'",
        'buffer_type must be "read" or "write"',
    ),
    Misuse(
        "annotate_buffer_access",
        elementwise,
        lambda sch: sch.annotate_buffer_access("B", 0, "read", lambda i: (i, i)),
        "ranges=lambda i: (i, i + 1, i, i + 1)",
        "the function takes 1 variables, but the block has 2",
    ),
    Misuse(
        "annotate_buffer_access",
        elementwise,
        lambda sch: sch.annotate_buffer_access("B", 0, "read", lambda i, j: i),
        "ranges=lambda i, j: (i, i + 1)",
        "Buffer rank and region dimension mismatch",
    ),
    Misuse(
        "annotate_buffer_access",
        elementwise,
        lambda sch: sch.annotate_buffer_access("B", 0, "read", lambda i, j: ((i,), j)),
        "ranges=<lambda>",
        "a range is a .begin, end. pair",
    ),
    Misuse(
        "annotate_buffer_access",
        elementwise,
        lambda sch: sch.annotate_buffer_access("B", 3, "read", lambda i, j: (i, j)),
        "buffer_index=3",
        "block B has 1 read regions",
        "T.reads(A[vi, vj])",
    ),
]
