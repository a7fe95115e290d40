"""Indices with ``//`` and ``%`` are computed as they are written, whatever TVM makes of them."""

from __future__ import annotations

import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax, te
from tvm.ir import TensorLoad
from tvm.s_tir.pipeline import default_s_tir_pipeline
from tvm.tirx import Ramp

import schedlang as sl
from schedlang.database import open_database
from schedlang.language.schedule import Schedule
from schedlang.metaschedule import as_tvm_database
from schedlang.targets import build_callable
from schedlang.tvm.codegen.pipeline import default_pipeline, written_for_tvm
from schedlang.tvm.codegen.runtime import borrow_array
from schedlang.tvm.program import as_main, parse_script, to_json
from schedlang.tvm.values import found_in
from schedlang.workloads import from_te
from schedlang.workloads.workload import Workload
from tests.metaschedule.records import TARGET, record_of
from tests.tvm.indices.check import REFUSED, RIGHT, cases
from tests.tvm.indices.programs import random_program
from tests.tvm.indices.schedules import DEFAULT, UNSCHEDULED, scheduled

Array = np.ndarray[Any, Any]


def result(mod: Any, *inputs: Array, shape: tuple[int, ...]) -> Array:
    output = np.full(shape, np.nan, "float32")
    build_callable(mod)(*inputs, output)
    return output


def test_a_grammar_of_indices_is_right_under_every_schedule() -> None:
    """``benchmarks/indices.py`` checks thousands."""
    found = list(cases(0, range(12), schedules=5))
    assert [case for case in found if case.outcome not in (RIGHT, REFUSED)] == []
    always = Counter(case.outcome for case in found if case.schedule in (UNSCHEDULED, DEFAULT))
    assert always == {RIGHT: 24}
    assert len({case.schedule for case in found if case.outcome == RIGHT}) > 10


def rolled() -> Workload:
    a = te.placeholder((8, 3, 3), name="a")
    y = te.compute((8, 3, 3), lambda n, i, j: a[n, (i + 1) % 3, (j + 2) % 3], name="y")
    return from_te([a, y], "rolled")


@pytest.mark.parametrize("fused", [slice(1, 3), slice(0, 2), slice(0, 3)])
def test_fused_loops_of_rolled_axes(fused: slice) -> None:
    sch = Schedule(rolled())
    sch.fuse(*sch.get_loops("y")[fused])
    a = np.random.default_rng(0).random((8, 3, 3)).astype("float32")
    right = np.roll(a, (-1, -2), (1, 2))
    np.testing.assert_array_equal(result(sch.mod, a, shape=a.shape), right)


def test_an_unscheduled_shifted_modulus_is_right() -> None:
    a = te.placeholder((4,), name="a")
    y = te.compute((4,), lambda j: a[((j + 1) % 4 + 2) % 4], name="y")
    mod = from_te([a, y]).mod
    values = np.arange(4, dtype="float32")
    assert result(mod, values, shape=(4,)).tolist() == [3, 0, 1, 2]
    plain = tvm.compile(mod, target="llvm")
    wrong = tvm.runtime.empty((4,), "float32")
    plain["main"](tvm.runtime.tensor(values), wrong)
    assert wrong.numpy().tolist() != [3, 0, 1, 2], "TVM does it right by now"


@pytest.mark.parametrize("outer", [-3, -2, 1, 3])
@pytest.mark.parametrize("inner", [-6, -3, 4, 6])
def test_quotients_and_remainders_of_remainders_by_negative_numbers(inner: int, outer: int) -> None:
    """TVM makes ``i // 3 % -1`` of ``i % -3 // 3``."""
    a = te.placeholder((32,), name="a")
    parts = [
        te.compute((24,), lambda i: a[i % inner // outer + 16], name="y0"),
        te.compute((24,), lambda i: (i % inner // outer).astype("float32"), name="y1"),
        te.compute((24,), lambda i: a[i % inner % outer + 16], name="y2"),
        te.compute((24,), lambda i: a[(i // inner + 16) % outer // inner + 16], name="y3"),
    ]
    y = te.compute((24, 4), lambda i, j: sum_where(j, [part[i] for part in parts]), name="y")
    sch = Schedule(from_te([a, y]))
    for part in parts:
        sch.compute_inline(part.op.name)
    values, i = np.arange(32, dtype="float32"), np.arange(24)
    expected = np.stack(
        [
            i % inner // outer + 16,
            i % inner // outer,
            i % inner % outer + 16,
            (i // inner + 16) % outer // inner + 16,
        ],
        axis=1,
    )
    np.testing.assert_array_equal(result(sch.mod, values, shape=(24, 4)), expected)
    by_tvm = np.full((24, 4), np.nan, "float32")
    compiled_by_tvm(written_for_tvm(sch.mod), "main", values, by_tvm)
    np.testing.assert_array_equal(by_tvm, expected)


def sum_where(which: Any, values: list[Any]) -> Any:
    """Return the value of that number."""
    chosen = values[-1]
    for number, value in enumerate(values[:-1]):
        chosen = te.if_then_else(which == number, value, chosen)
    return chosen


def compiled_by_tvm(mod: Any, name: str, *arrays: Array) -> None:
    """Call a program that TVM's own pipeline compiled."""
    code = tvm.compile(mod, target="llvm")
    code[name](*map(borrow_array, arrays))


def test_tvm_computes_indices_right_that_are_written_for_it() -> None:
    """The shifted modulus above shows that it computes others wrongly."""
    changed, refused = 0, 0
    for number in range(16):
        program = random_program(0, number)
        for name in (UNSCHEDULED, DEFAULT):
            mod = scheduled(program.workload, name, number).mod
            written = written_for_tvm(mod)
            changed += written is not mod
            arrays = program.arguments()
            try:
                compiled_by_tvm(written, "main", *arrays)
            except tvm.error.InternalError as error:
                assert "Divide by zero" in str(error)
                refused += 1
            else:
                np.testing.assert_array_equal(arrays[-1], program.expected)
    assert changed > 4 and refused < 8


def test_what_is_written_for_tvm_loads_whole_vectors() -> None:
    """An index with a product of a vectorised loop is a vector of indices."""
    a = te.placeholder((4, 64), name="a")
    y = te.compute((4, 64), lambda i, j: a[3 - i, j] * 2, name="y")
    sch = Schedule(from_te([a, y]))
    _, inner = sch.split(sch.fuse(*sch.get_loops("y")), [None, 8])
    sch.vectorize(inner)
    written = written_for_tvm(sch.mod)
    assert written is not sch.mod
    machine = sl.Target("cpu").tvm_target()
    bound = tvm.tirx.transform.BindTarget(machine.with_host(machine))(written)
    lowered = default_s_tir_pipeline()[0](bound)
    loads = found_in(lowered["main"].body, TensorLoad)
    assert [type(load.indices[-1]) for load in loads if load.ty.dtype.lanes == 8] == [Ramp]


def test_what_goes_out_to_tvm_is_right_there(tmp_path: Path) -> None:
    sch = Schedule(rolled())
    sch.fuse(*sch.get_loops("y")[1:3])
    a = np.random.default_rng(0).random((8, 3, 3)).astype("float32")
    right = np.roll(a, (-1, -2), (1, 2))
    namespace: dict[str, Any] = {}
    exec(sch.trace.as_tvm_python(), namespace)
    file = tmp_path / "rolled.db"
    with open_database(file) as database:
        database.put_workload(sch.workload.key, "rolled", to_json(sch.workload.mod))
        database.append([record_of(sch.workload, sch.trace, 1e-6)])
    for mod in (namespace["sch"].mod, sl.apply(rolled(), file, TARGET)):
        y = np.empty_like(a)
        compiled_by_tvm(mod, "main", a, y)
        np.testing.assert_array_equal(y, right)
    with TARGET.tvm_target(), as_tvm_database(file) as view:
        relax.transform.MetaScheduleApplyDatabase()(rolled().mod)
    assert "may compute it wrongly" in view.missed["main"]


def test_what_tvm_computes_right_goes_out_as_it_is() -> None:
    sch = Schedule(sl.workloads.get("T2D"))
    block = sch.get_block("conv2d_transpose")
    _, _, _, channels, *_ = sch.get_loops(block)
    _, inner = sch.split(channels, [None, 8])
    sch.vectorize(inner)
    mod = sch.mod
    assert written_for_tvm(mod) is mod


def inverses(count: int) -> Workload:
    """Inverses of 3 x 3 matrices, by cofactors."""
    a = te.placeholder((count, 3, 3), name="a")

    def cofactor(n: Any, i: Any, j: Any) -> Any:
        def at(row: int, column: int) -> Any:
            return a[n, (i + row) % 3, (j + column) % 3]

        return at(1, 1) * at(2, 2) - at(1, 2) * at(2, 1)

    c = te.compute((count, 3, 3), cofactor, name="c")
    k = te.reduce_axis((0, 3), name="k")
    d = te.compute((count,), lambda n: te.sum(a[n, 0, k] * c[n, 0, k], axis=k), name="d")
    y = te.compute((count, 3, 3), lambda n, i, j: c[n, j, i] / d[n], name="y")
    return from_te([a, y], "inverses")


def test_inverses_of_small_matrices_in_the_default_space() -> None:
    workload = inverses(10_000)
    a = (np.random.default_rng(0).random((10_000, 3, 3)) + 2 * np.eye(3)).astype("float32")
    right = np.linalg.inv(a.astype("float64"))
    for seed in range(4):
        mod = sl.default_space("cpu").sample(workload, seed=seed).mod
        np.testing.assert_allclose(result(mod, a, shape=a.shape), right, rtol=1e-3, atol=1e-5)


BODIES = {
    "a guard": """
        for f in range(24):
            if f >= 5:
                y[f] = a[(f // 3 + 1) % 4 * 6 + (f % 3 + 2) % 3]
            else:
                y[f] = a[f]
    """,
    "a chosen value": """
        for f in range(24):
            y[f] = T.if_then_else(f % 5 > 2, a[(f % 6 + 4) % 6 + f // 6], a[(f + 1) % 24])
    """,
    "a variable": """
        for f in range(24):
            g: T.let[T.int32] = (f % 6 + 5) % 6
            y[f] = a[(g + 1) % 6 + (f // 6 + 3) % 4 * 6]
    """,
    "loops that begin elsewhere": """
        for f in range(0, 1):
            y[f] = a[f]
        for f in range(1, 24):
            y[f] = a[(f + 3) % 4 * 6 + f % 6]
    """,
    "an inner extent": """
        for i in range(4):
            for j in range((i + 1) % 4 + 3):
                y[i * 6 + j] = a[((j + i) % 6 + 2) % 6]
    """,
    "a view": """
        for f in range(4):
            with T.sblock("row"):
                v = T.axis.spatial(4, f)
                T.reads(a[(v + 1) % 4 * 6:(v + 1) % 4 * 6 + 6])
                T.writes(y[(v + 3) % 4 * 6:(v + 3) % 4 * 6 + 6])
                A = T.match_buffer(a[(v + 1) % 4 * 6:(v + 1) % 4 * 6 + 6], (6,), offset_factor=1)
                Y = T.match_buffer(y[(v + 3) % 4 * 6:(v + 3) % 4 * 6 + 6], (6,), offset_factor=1)
                for j in range(6):
                    Y[(j + v) % 6] = A[((j + 1) % 6 + 4) % 6]
    """,
    "a permuted store": """
        for f in range(24):
            with T.sblock("store"):
                v = T.axis.spatial(24, (f + 7) % 24)
                y[((v + 5) % 24 + 11) % 24] = a[v]
    """,
    "a subtracted iterator": """
        for f in range(24):
            y[f] = a[(23 - f) % 7 + (5 - f % 6) // 2]
    """,
}


def in_python(body: str, a: Array) -> Array:
    """Run a body as Python, with what it uses of TVMScript."""

    class Script:
        class let:  # noqa: N801
            def __class_getitem__(cls, item: Any) -> Any:
                return item

        int32 = int
        if_then_else = staticmethod(lambda condition, then, other: then if condition else other)

    y = np.full(24, np.nan, "float32")
    exec(textwrap.dedent(body), {"T": Script, "a": a, "y": y})
    return y


def scripted(body: str) -> Any:
    text = "@T.prim_func(s_tir=True)\ndef main(a: T.Buffer((24,), 'float32'), "
    text += "y: T.Buffer((24,), 'float32')):\n"
    return as_main(parse_script(text + textwrap.indent(textwrap.dedent(body), "    ")))


@pytest.mark.parametrize("name", BODIES)
def test_statements_around_an_index(name: str) -> None:
    a = np.arange(1, 25, dtype="float32")
    if name == "a view":
        rows = a.reshape(4, 6)
        right = np.empty_like(rows)
        for v in range(4):
            for j in range(6):
                right[(v + 3) % 4, (j + v) % 6] = rows[(v + 1) % 4, ((j + 1) % 6 + 4) % 6]
        right = right.reshape(-1)
    elif name == "a permuted store":
        right = np.empty_like(a)
        right[((np.arange(24) + 5) % 24 + 11) % 24] = a
    else:
        right = in_python(BODIES[name], a)
    np.testing.assert_array_equal(result(scripted(BODIES[name]), a, shape=(24,)), right)


def lowered(mod: Any, pipeline: tuple[Any, Any, Any]) -> Any:
    target = sl.Target("cpu").tvm_target()
    bound = tvm.tirx.transform.BindTarget(target.with_host(target))(mod)
    return pipeline[0](bound)


@pytest.mark.parametrize("make", [sl.workloads.matmul, sl.workloads.conv2d])
def test_ordinary_programs_are_lowered_as_tvm_lowers_them(make: Any) -> None:
    workload = make()
    theirs = tvm.tirx.compilation_pipeline.get_tir_pipeline("default")
    for seed in range(2):
        mod = sl.default_space("cpu").sample(workload, seed=seed).mod
        assert tvm_ffi.structural_equal(
            lowered(mod, default_pipeline()), lowered(mod, theirs), map_free_vars=True
        )


def test_rolled_rows_are_still_vectors() -> None:
    a = te.placeholder((8, 64), name="a")
    y = te.compute((8, 64), lambda i, j: a[((i + 1) % 8 + 2) % 8, j] * 2.0, name="y")
    sch = Schedule(from_te([a, y]))
    _, inner = sch.split(sch.fuse(*sch.get_loops("y")), [None, 16])
    sch.vectorize(inner)
    text = lowered(sch.mod, default_pipeline()).script()
    assert "T.Ramp" in text or ":" in text.split("y_1[")[1].split("]")[0]
    values = np.random.default_rng(0).random((8, 64)).astype("float32")
    right = values[((np.arange(8) + 1) % 8 + 2) % 8] * 2
    np.testing.assert_array_equal(result(sch.mod, values, shape=(8, 64)), right)
