"""Blocks as units, tensor intrinsics and annotations."""

from __future__ import annotations

import functools

from tvm.s_tir import TensorIntrin
from tvm.script import from_source

from schedlang.language.schedule import Schedule
from schedlang.tvm.schedule.intrinsics import register_all
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import byte_dot, chain, elementwise, matmul

_INTRIN = "schedlang_test_double_row"


@functools.cache
def _register_intrin() -> None:
    """Doubling a row of 16 numbers: one vector statement."""
    buffers = "\n".join(
        f"    {name} = T.match_buffer({name.lower()}, (16,), 'float32', offset_factor=1)"
        for name in "AB"
    )
    head = f"""
@T.prim_func(s_tir=True)
def main(a: T.handle, b: T.handle) -> None:
{buffers}
    with T.sblock("root"):
        T.reads(A[0:16])
        T.writes(B[0:16])
"""
    description = f"""{head}
        for j in range(16):
            with T.sblock("B"):
                vj = T.axis.spatial(16, j)
                B[vj] = A[vj] * T.float32(2)
"""
    implementation = f"""{head}
        for j in T.vectorized(16):
            B[j] = A[j] + A[j]
"""
    TensorIntrin.register(_INTRIN, from_source(description), from_source(implementation))


def _tensorize(sch: Schedule) -> None:
    _register_intrin()
    _, j = sch.get_loops("B")
    sch.tensorize(j, _INTRIN)


def _tensorize_with_tvms_own(sch: Schedule) -> None:
    register_all()  # the program for TVM alone imports them all, which takes 17 s without this
    i, _ = sch.get_loops("C")
    sch.decompose_reduction("C", i)
    i, _ = sch.get_loops("C_update")
    sch.tensorize(i, "dot_16x4_vnni")


def _blockize(sch: Schedule) -> None:
    _, j, _ = sch.get_loops("C")
    sch.blockize(j)


def _blockize_blocks(sch: Schedule) -> None:
    i, _ = sch.get_loops("C")
    sch.compute_at("B", i)
    sch.blockize([sch.get_block("B"), sch.get_block("C")])


def _annotate(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    sch.annotate(i, "pragma_unroll_explicit", 1)
    sch.annotate(j, "note", "a text")
    sch.annotate("B", "numbers", [1, 2])


def _annotate_with_a_dict(sch: Schedule) -> None:
    sch.annotate("B", "note", {"numbers": [1, 2], "text": "b"})


def _annotate_with_a_draw(sch: Schedule) -> None:
    steps = sch.sample_categorical([0, 16, 64], decision=16)
    sch.annotate(sch.get_loops("B")[0], "pragma_auto_unroll_max_step", steps)


def _unannotate(sch: Schedule) -> None:
    i, j = sch.get_loops("B")
    sch.annotate(i, "first", 1)
    sch.annotate(i, "second", 2.5)
    sch.unannotate(i, "first")


CASES = [
    Case("blockize", matmul, _blockize),
    Case("blockize_blocks", chain, _blockize_blocks),
    Case("tensorize", elementwise, _tensorize),
    Case(
        "tensorize_with_tvms_own",
        byte_dot,
        _tensorize_with_tvms_own,
        not_run="needs AVX-512 VNNI",
    ),
    Case("annotate", elementwise, _annotate),
    Case(
        "annotate_with_a_dict",
        elementwise,
        _annotate_with_a_dict,
        no_tvm_trace="annotate.* TVM applies a dict from a trace's JSON text only",
    ),
    Case("annotate_with_a_draw", elementwise, _annotate_with_a_draw),
    Case("unannotate", elementwise, _unannotate),
]

MISUSES = [
    Misuse(
        "blockize",
        elementwise,
        lambda sch: sch.blockize("B"),
        "target='B'",
        "takes a loop or a list of blocks, not str 'B'",
    ),
    Misuse(
        "blockize",
        chain,
        lambda sch: sch.blockize(sch.get_loops("C")[0:1]),
        "target=[l1]",
        "takes a block .*, not LoopRV l1",
    ),
    Misuse(
        "blockize",
        chain,
        lambda sch: sch.blockize([]),
        "target=[]",
        "required to have at least one",
    ),
    Misuse(
        "tensorize",
        elementwise,
        lambda sch: sch.tensorize("B", "dot_4x4"),
        "tensor_intrin='dot_4x4'",
        "no tensor intrinsic 'dot_4x4' is registered",
    ),
    Misuse(
        "tensorize",
        byte_dot,
        lambda sch: sch.tensorize(sch.get_loops("C")[0], "dot_16x4_vnni"),
        "tensor_intrin='dot_16x4_vnni'",
        "stmt doesn't match the tensor intrin: .* read buffers regions do not match",
    ),
    Misuse(
        "annotate",
        elementwise,
        lambda sch: sch.annotate("B", "note", object),
        "ann_val=<class 'object'>",
        "cannot be stored in a trace: type <class 'object'>",
    ),
    Misuse(
        "annotate",
        elementwise,
        lambda sch: sch.annotate("B", 1, 1),
        "ann_key=1",
        "takes a string, not int 1",
    ),
    Misuse(
        "unannotate",
        elementwise,
        lambda sch: sch.unannotate("B", "note"),
        "ann_key='note'",
        "Cannot find annotation key: note",
    ),
]
