"""``inline_constants``: constant scalars, and constant tensors when asked."""

from __future__ import annotations

import functools

import pytest

from schedlang.modules.inlining import inline_constants
from schedlang.workloads import from_script
from schedlang.workloads.workload import Workload
from tests.language.primitives.programs import chain, elementwise
from tests.modules.module_runs import Golden, assert_golden, assert_not_applicable, sampled
from tests.properties.programs import assert_same_numbers


@functools.cache
def constants() -> Workload:
    """C = A * 59 + ramp, where 59 and ramp are computed by blocks."""
    return from_script(
        """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((8, 16), 'float32'), C: T.Buffer((8, 16), 'float32')):
    factor = T.sblock_alloc_buffer((), 'float32')
    ramp = T.sblock_alloc_buffer((16,), 'float32')
    with T.sblock("factor"):
        vi = T.axis.spatial(1, 0)
        factor[()] = T.float32(59)
    for j in range(16):
        with T.sblock("ramp"):
            vj = T.axis.spatial(16, j)
            ramp[vj] = T.cast(vj, 'float32')
    for i, j in T.grid(8, 16):
        with T.sblock("C"):
            vi, vj = T.axis.remap("SS", [i, j])
            C[vi, vj] = A[vi, vj] * factor[()] + ramp[vj]
""",
        "constants",
    )


def test_scalars(golden: Golden) -> None:
    sch = sampled(constants(), inline_constants)
    assert_golden(golden, "inline_constants", sch)
    assert_same_numbers(sch.mod, constants(), sch.trace)


def test_tensors_when_asked(golden: Golden) -> None:
    sch = sampled(constants(), inline_constants(tensors=True))
    assert_golden(golden, "inline_constants_tensors", sch)
    assert_same_numbers(sch.mod, constants(), sch.trace)


@pytest.mark.parametrize(
    ("workload", "block", "reason"),
    [
        (constants, "ramp", "it writes a tensor, not a scalar"),
        (constants, "C", "it reads a buffer"),
        (chain, "B", "it reads a buffer"),
        (elementwise, "B", "it reads a buffer"),
    ],
)
def test_where_it_does_not_apply(workload, block: str, reason: str) -> None:
    assert_not_applicable(inline_constants, workload(), block, reason)


def test_a_constant_that_is_the_result_stays() -> None:
    script = """
@T.prim_func(s_tir=True)
def main(A: T.Buffer((), 'float32')):
    with T.sblock("A"):
        vi = T.axis.spatial(1, 0)
        A[()] = T.float32(59)
"""
    assert_not_applicable(inline_constants, from_script(script), "A", "it writes an output")
