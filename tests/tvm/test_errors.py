"""Exceptions that callbacks of TVM's raise come back as they are; what TVM's messages mean."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tvm import te, tirx, topi
from tvm_ffi import structural_map, structural_walk

import schedlang as sl
from schedlang import errors
from schedlang.targets import BuildError, build_callable
from schedlang.tvm.analysis.intervals import Uncountable
from schedlang.tvm.analysis.inverse_bounds import NoBounds
from schedlang.tvm.errors import meaning_of
from schedlang.tvm.graph_terms import Unencodable
from schedlang.workloads import from_te
from tests.properties.programs import assert_same_numbers

KINDS = [
    Unencodable, NoBounds, Uncountable, errors.NotApplicable, errors.WorkloadError,
    errors.DatabaseError, errors.SpaceError, errors.TargetError, KeyboardInterrupt, SystemExit,
    RecursionError, OverflowError, TimeoutError, ZeroDivisionError, ValueError, MemoryError,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("visit", [structural_walk, structural_map])
def test_the_type_and_the_message_come_back(kind: type[BaseException], visit: object) -> None:
    def refuse(variable: object) -> None:
        raise kind("too much")

    with pytest.raises(kind, match="too much") as caught:
        visit(tirx.Var("i", "int32") + 1, (tirx.Var, refuse))  # type: ignore[operator]
    assert type(caught.value) is kind


def test_loops_of_a_decomposed_reduction() -> None:
    sch = sl.Schedule(sl.workloads.matmul(8, 8, 8))
    i, j, k = sch.get_loops("C")
    sch.decompose_reduction("C", j)
    said = "block 'C_update' in it .* use parallel, vectorize or bind before decompose_reduction"
    with pytest.raises(errors.InstructionError, match=said) as caught:
        sch.bind(i, "threadIdx.x")
    assert "SRef" not in str(caught.value) and "bind(loop=l1 (i in 8)" in str(caught.value)
    # The remedy is one.
    sch = sl.Schedule(sl.workloads.matmul(8, 8, 8))
    i, j, k = sch.get_loops("C")
    sch.bind(i, "threadIdx.x")
    sch.decompose_reduction("C", j)


def test_rows_of_a_decomposed_reduction_run_in_parallel() -> None:
    """TVM refuses them; the iterations are proven apart."""
    workload = sl.workloads.matmul(8, 8, 8)
    sch = sl.Schedule(workload)
    i, j, k = sch.get_loops("C")
    sch.decompose_reduction("C", j)
    sch.parallel(i)
    assert "T.parallel(8)" in str(sch.mod)
    assert_same_numbers(sch.mod, workload, sch.trace)
    with pytest.raises(errors.InstructionError, match="may depend on each other"):
        sch.parallel(k)


def test_threads_of_a_gpu_on_a_cpu() -> None:
    sch = sl.Schedule(sl.workloads.matmul(8, 8, 8))
    sch.bind(sch.get_loops("C")[0], "threadIdx.x")
    with pytest.raises(BuildError, match=r"binds loops to .*threadIdx; build it for a GPU"):
        build_callable(sch.mod, "cpu")
    assert "this machine has none" in meaning_of("Check failed: device_id_ < 0 (0 vs. 0)")
    assert meaning_of("Cannot find intrinsic declaration") == ""


SIDES: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "compare": lambda a, b: a < b,
}


@pytest.mark.parametrize("name", SIDES)
def test_arithmetic_of_booleans(name: str) -> None:
    a = te.placeholder((8, 8), name="A")
    wrong = from_te([a, te.compute((8, 8), lambda i, j: SIDES[name](i < 2, j < 1), name="B")])
    with pytest.raises(BuildError, match=r"booleans.*\.astype\(\"int32\"\).*tirx\.all"):
        build_callable(wrong.mod, "cpu")

    def right(i: Any, j: Any) -> Any:
        return SIDES[name]((i < 2).astype("int32"), (j < 1).astype("int32"))

    build_callable(from_te([a, te.compute((8, 8), right, name="B")]).mod, "cpu")


@pytest.mark.parametrize("make", [topi.sort, topi.argsort])
def test_sorts_of_topi(make: Callable[[te.Tensor], te.Tensor]) -> None:
    a = te.placeholder((8, 8), name="A")
    with pytest.raises(errors.WorkloadError, match="is a te.extern, .* nothing to schedule"):
        from_te([a, make(a)])
    b = make(a)
    assert from_te([a, te.compute((8, 8), lambda i, j: b[i, j] + 1, name="C")]).name == "C"
