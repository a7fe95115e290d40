"""Pragmas that TVM's code generator for CPUs only warns of are dropped before it."""

from __future__ import annotations

import numpy as np
import pytest

import schedlang as sl

# As TVM's own `scatter` and `index_put` have it: statements in a row, below one pragma.
PROGRAM = """
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def main(A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")):
    for once in range(1):
        with T.sblock("fill"):
            v = T.axis.spatial(1, once)
            T.reads(A[0:16])
            T.writes(B[0:16])
            with T.attr(0, "pragma_scope", "seq"):
                for i in range(16):
                    B[i] = A[i] * T.float32(2)
                for i in T.serial(8, annotations={"pragma_of_mine": 1}):
                    B[i] = B[i] + T.float32(1)
"""


def test_unknown_pragmas_do_not_reach_the_user(capfd: pytest.CaptureFixture[str]) -> None:
    run = sl.Target("cpu").build(sl.workloads.from_script(PROGRAM).mod)
    given, found = np.arange(16, dtype="float32"), np.zeros(16, "float32")
    run(given, found)
    assert np.array_equal(found, 2 * given + (np.arange(16) < 8))
    said = capfd.readouterr()
    assert "pragma" not in said.err + said.out
