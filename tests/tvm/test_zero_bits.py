"""The bits of an integer zero in another type, which LLVM's generator takes for a null pointer."""

from __future__ import annotations

import numpy as np
import pytest
from tvm.s_tir import Schedule
from tvm.script import tirx as T

from schedlang.targets import Target, build_callable
from schedlang.tvm.program import as_main


@T.prim_func(s_tir=True)
def five(a: T.Buffer((4,), "int64"), b: T.Buffer((4,), "int64")) -> None:
    """Add 5 to nothing, which the simplifier finds."""
    for i in range(4):
        with T.sblock("b"):
            v = T.axis.spatial(4, i)
            b[v] = T.reinterpret("int64", T.reinterpret("uint64", a[v] * T.int64(0)) + T.uint64(5))


@pytest.mark.parametrize("vector", [False, True])
def test_zero_in_another_type(vector: bool) -> None:
    schedule = Schedule(five)
    if vector:
        schedule.vectorize(*schedule.get_loops(schedule.get_sblock("b")))
    out = np.empty(4, "int64")
    build_callable(as_main(schedule.mod["main"]), Target("cpu"))(np.arange(4), out)
    np.testing.assert_array_equal(out, [5, 5, 5, 5])
