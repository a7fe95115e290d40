"""The facts of statements: loops, accesses with their strides, and conditions."""

from __future__ import annotations

import schedlang as sl
from schedlang.tvm.analysis.loop_nests import Statement, statement_of, statements
from schedlang.workloads import from_script

PADDED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((6, 14), "float32"), B: T.Buffer((8, 16), "float32")):
    for f in T.parallel(4):
        for i in range(2):
            for j in T.vectorized(16):
                with T.sblock("B"):
                    vi = T.axis.spatial(8, f * 2 + i)
                    vj = T.axis.spatial(16, j)
                    B[vi, vj] = T.if_then_else(
                        1 <= vj and vj < 15 and vi < 6, A[vi, vj - 1], T.float32(0)
                    )
"""
FUSED = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8, 16), "float32"), I: T.Buffer((16,), "int32"),
         B: T.Buffer((128,), "float32")):
    for f in range(128):
        with T.sblock("B"):
            v = T.axis.spatial(128, f)
            B[v] = T.exp(A[v // 16, v % 16]) * 2.0 + A[I[v % 16] % 8, v % 16]
"""


def only(text: str) -> Statement:
    [found] = statements(from_script(text).func)
    return found


def test_loops_strides_and_conditions() -> None:
    found = only(PADDED)
    assert [(loop.extent, loop.kind) for loop in found.loops] == [
        (4, "parallel"), (2, "serial"), (16, "vectorized"),
    ]  # fmt: skip
    load, store = found.accesses
    assert (load.strides, load.stores, load.intermediate) == ((28, 14, 1), False, False)
    assert (store.strides, store.stores, store.bytes) == ((32, 16, 1), True, 4)
    assert found.guards == (frozenset({0, 1, 2}),)


def test_divided_indices_and_what_is_looked_up() -> None:
    found = only(FUSED)
    assert (found.operations, found.calls) == (2, 1)
    first, looked_up, *_, store = found.accesses
    assert first.strides == (2.0,)  # 16 every 16th step, and 1
    assert looked_up.buffer == first.buffer and len(found.accesses) == 4
    assert store.strides == (1.0,)


def test_every_statement_of_a_scheduled_program() -> None:
    workload = sl.workloads.conv2d_bn_relu(8, 8, 16, 16, 3, 1, 1)
    sch = sl.default_space().sample(workload, seed=1)
    found = statements(sch.mod["main"])
    assert len(found) >= 3
    for statement in found:
        assert statement.accesses[-1].stores
        assert all(len(one.strides) == len(statement.loops) for one in statement.accesses)
    assert {one.intermediate for one in found[-1].accesses} == {True, False}


def test_a_block_has_the_statement_that_the_program_has() -> None:
    sch = sl.Schedule(from_script(PADDED))
    found = statement_of(sch.raw, sch.raw_value(sch.get_block("B")))
    assert found is not None
    assert found.accesses == only(PADDED).accesses and found.guards == only(PADDED).guards
