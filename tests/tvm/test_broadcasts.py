"""Vectors of one bfloat16 that is repeated, which TVM does not compile: LLVM makes them."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tvm import te
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from schedlang.targets import Target, build_callable
from schedlang.tvm.codegen.pipeline import WITHOUT_STORED_BROADCASTS
from schedlang.tvm.program import as_main
from tests.targets.programs import from_body

BF16 = np.dtype(ml_dtypes.bfloat16)


def product(dtype: str) -> IRModule:
    """C = A @ B, whose initial value and sums are stored in vectors."""
    a, b = (te.placeholder((8, 8), dtype, name=name) for name in "AB")
    k = te.reduce_axis((0, 8), name="k")
    c = te.compute((8, 8), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="C")
    schedule = Schedule(te.create_prim_func([a, b, c]))
    block = schedule.get_sblock("C")
    i, j, k = schedule.get_loops(block)
    schedule.reorder(i, k, j)
    schedule.vectorize(j)
    init = schedule.decompose_reduction(block, k)
    schedule.vectorize(schedule.get_loops(init)[-1])
    return as_main(schedule.mod["main"])


def rows(dtype: str, *, along: bool) -> IRModule:
    """Each element of a row repeated, or the row itself."""
    a = te.placeholder((8,), dtype, name="A")
    b = te.compute((8, 8), lambda i, j: a[j if along else i], name="B")
    schedule = Schedule(te.create_prim_func([a, b]))
    schedule.vectorize(schedule.get_loops(schedule.get_sblock("B"))[-1])
    return as_main(schedule.mod["main"])


def test_sums_in_bfloat16() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 4, (8, 8)).astype(BF16) for _ in "ab")
    out = np.empty((8, 8), BF16)
    build_callable(product("bfloat16"), Target("cpu"))(a, b, out)
    np.testing.assert_array_equal(out.astype("f4"), a.astype("f4") @ b.astype("f4"))


@pytest.mark.parametrize("along", [False, True])
def test_rows_in_bfloat16(along: bool) -> None:
    a, out = np.arange(8).astype(BF16), np.empty((8, 8), BF16)
    build_callable(rows("bfloat16", along=along), Target("cpu"))(a, out)
    np.testing.assert_array_equal(out, np.broadcast_to(a if along else a[:, None], (8, 8)))


@pytest.mark.parametrize(
    ("mod", "vectors"),
    [
        (product("bfloat16"), 1),
        (product("float32"), 2),
        (rows("bfloat16", along=False), 0),
        (rows("bfloat16", along=True), 1),
        (rows("float16", along=False), 1),
    ],
    ids=["sums", "float32", "repeated", "copied", "float16"],
)
def test_other_loops_stay_as_they_are(mod: IRModule, vectors: int) -> None:
    assert WITHOUT_STORED_BROADCASTS(mod).script().count("T.vectorized") == vectors


NESTED = """
for j in T.vectorized(8):
    with T.sblock("outer"):
        v = T.axis.spatial(8, j)
        with T.sblock("inner"):
            w = T.axis.spatial(8, v)
            B[w] = A[w]
"""


def test_a_block_inside_another_keeps_its_vectors() -> None:
    signature = 'A: T.Buffer((8,), "bfloat16"), B: T.Buffer((8,), "bfloat16")'
    assert "T.vectorized" in WITHOUT_STORED_BROADCASTS(from_body(NESTED, signature)).script()
