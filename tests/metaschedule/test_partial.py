"""Records with instructions that TVM lacks: each goes out in every form that TVM can apply."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, te
from tvm.s_tir.meta_schedule.database import JSONDatabase
from tvm.script import ir as I, relax as R

import schedlang as sl
from schedlang.database import Database
from schedlang.instructions.instruction import register
from schedlang.instructions.kinds import Primitive
from schedlang.language.macros import call_with, rewriting
from schedlang.metaschedule import as_tvm_database, export_json, record_as_python
from schedlang.tvm.program import structurally_equal, to_json
from schedlang.tvm.schedule import primitive as ffi
from tests.metaschedule.records import TARGET, record_of
from tests.properties.programs import assert_same_numbers

SOFTMAX = sl.workloads.softmax(16, 32)


@rewriting(lambda sch, block, note: ffi("ScheduleAnnotate")(sch, block, "mine", note))
def marked(sch: sl.Schedule, block: sl.BlockRV, note: str) -> None:
    """An instruction of a user's, which TVM does not have."""


def _cached(sch: sl.Schedule, block: sl.BlockRV) -> sl.BlockRV:  # type: ignore[empty-body]
    """One that returns a block."""


CACHED = Primitive(
    _cached,
    lambda sch, block: ffi("ScheduleCacheWrite")(sch, block, 0, "global", []),
    prefix="b",
    single=True,
)
register(CACHED)


def layer_norm() -> sl.Workload:
    """Normalised rows, through gelu."""
    x = te.placeholder((8, 24), "float32", "x")
    k, r = te.reduce_axis((0, 24)), te.reduce_axis((0, 24))
    mean = te.compute((8,), lambda i: te.sum(x[i, k] / 24.0, k), name="mean")
    var = te.compute(
        (8,), lambda i: te.sum((x[i, r] - mean[i]) * (x[i, r] - mean[i]) / 24.0, r), name="var"
    )
    y = te.compute((8, 24), lambda i, j: (x[i, j] - mean[i]) / te.sqrt(var[i] + 1e-5), name="y")
    gelu = te.compute((8, 24), lambda i, j: y[i, j] * (1.0 + te.erf(y[i, j] * 0.7)), name="gelu")
    return sl.workloads.from_te([x, gelu])


def attention() -> sl.Workload:
    """softmax(Q K) V."""
    q, v = (te.placeholder((16, 8), "float32", name) for name in "qv")
    keys = te.placeholder((8, 16), "float32", "keys")
    k, r, m, n = (te.reduce_axis((0, extent)) for extent in (8, 16, 16, 16))
    s = te.compute((16, 16), lambda i, j: te.sum(q[i, k] * keys[k, j], k), name="scores")
    top = te.compute((16,), lambda i: te.max(s[i, r], r), name="top")
    e = te.compute((16, 16), lambda i, j: te.exp(s[i, j] - top[i]), name="exponent")
    total = te.compute((16,), lambda i: te.sum(e[i, m], m), name="total")
    p = te.compute((16, 16), lambda i, j: e[i, j] / total[i], name="weights")
    out = te.compute((16, 8), lambda i, j: te.sum(p[i, n] * v[n, j], n), name="out")
    return sl.workloads.from_te([q, keys, v, out])


def with_vector_math(workload: sl.Workload, seed: int = 0) -> sl.Schedule:
    """A sample of the default space in which a mathematical function was replaced."""
    return sl.default_space(TARGET).sample(workload, seed=seed, choices={"vector_math": True})


def by_hand() -> sl.Schedule:
    """Instructions that TVM lacks before, between and after others."""
    sch = sl.Schedule(SOFTMAX)
    block = sch.get_block("exponent")
    marked(sch, block, "first")
    cached = call_with(sch, CACHED, block)
    i, _ = sch.get_loops(block)
    sch.annotate(block, "note", {"a": 1})
    sch.parallel(i)
    sch.compute_at(block, sch.get_loops(cached)[0])
    sch.vectorize(sch.get_loops(sch.get_block("row_sum"))[0])
    return sch


CASES: dict[str, Callable[[], sl.Schedule]] = {
    "softmax": lambda: with_vector_math(SOFTMAX),
    "layer norm": lambda: with_vector_math(layer_norm()),
    "attention": lambda: with_vector_math(attention(), seed=1),
    "by hand": by_hand,
}
each = pytest.mark.parametrize("name", CASES)


# Reads [[program, expected module], ...] and says where they differ; schedlang is not there.
_WITH_TVM_ALONE = """
import json, sys
import tvm, tvm_ffi
for program, expected in json.load(sys.stdin):
    namespace = {}
    exec(program, namespace)
    assert tvm_ffi.structural_equal(namespace["sch"].mod, tvm.ir.load_json(expected)), program
assert "schedlang" not in sys.modules
"""


@pytest.mark.slow
def test_python_for_tvm_makes_the_same_program() -> None:
    schedules = [make() for make in CASES.values()]
    programs = [sch.trace.as_tvm_python() for sch in schedules]
    for sch, program in zip(schedules, programs, strict=True):
        assert "# TVM has no counterpart of " in program
        assert "#     b0 = " in program
        assert structurally_equal(sch.mod, sch.workload.mod) is False
    assert "# TVM has no counterpart of replace_math_calls," in programs[0]
    assert "# TVM has no counterpart of _cached, marked," in programs[-1]
    wanted = [to_json(sch.mod) for sch in schedules]
    done = subprocess.run(
        [sys.executable, "-I", "-c", _WITH_TVM_ALONE],
        input=json.dumps(list(zip(programs, wanted, strict=True))),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_programs_whose_names_tvmscript_changes_keep_them() -> None:
    """Two buffers of one name: the script renames one, and later block names with it."""
    a, b, c = (te.placeholder((24, 24), "float32", name) for name in "abc")
    k, r = (te.reduce_axis((0, 24)) for _ in range(2))
    product = te.compute((24, 24), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="c")
    last = te.compute((24, 24), lambda i, j: te.sum(product[i, r] * c[r, j], r), name="d")
    workload = sl.workloads.from_te([a, b, c, last])
    sch = sl.Schedule(workload)
    sch.cache_write(sch.get_block("c"), 0, "global")
    sch.parallel(sch.get_loops(sch.get_block("c_global"))[0])
    for program in (sch.trace.as_tvm_python(), sch.trace.as_python()):
        namespace: dict[str, Any] = {}
        exec(program, namespace)
        assert structurally_equal(namespace["sch"].mod, sch.mod)


def test_what_changes_the_program_behind_the_trace_goes_out_as_it_is() -> None:
    @sl.instruction
    def sneaky(sch: sl.Schedule, block: sl.BlockRV) -> None:
        """Calls TVM, so the trace does not know."""
        ffi("ScheduleAnnotate")(sch.raw, sch.raw_value(block), "sneaky", 1)

    sch = sl.Schedule(SOFTMAX)
    sneaky(sch, sch.get_block("exponent"))
    program = sch.trace.as_tvm_python()
    assert (
        "# TVM refuses these instructions, makes another program, or a wrong index of them,"
        in program
    )
    namespace: dict[str, Any] = {}
    exec(program, namespace)
    assert structurally_equal(namespace["sch"].mod, sch.mod)


@each
def test_a_trace_of_tvm_says_what_it_lacks_and_computes_the_same(name: str) -> None:
    sch = CASES[name]()
    with pytest.warns(sl.PartialTraceWarning, match="TVM has no such primitive") as given:
        trace = sch.trace.to_tvm_trace()
    assert len(given) == 1 and given[0].filename == __file__
    made = tvm.s_tir.Schedule(sch.workload.mod)
    trace.apply_to_schedule(made, remove_postproc=False)
    assert not structurally_equal(made.mod, sch.workload.mod), "the other instructions are there"
    assert_same_numbers(made.mod, sch.workload, name)
    with pytest.raises(sl.SpaceError, match="TVM has no such primitive"):
        sch.trace.to_tvm_trace(strict=True)


def test_what_uses_something_left_out_is_left_out_and_the_rest_is_not() -> None:
    from schedlang.interpreters.conversions import to_tvm

    sch = by_hand()
    form = to_tvm(sch.trace.instructions, sch.workload)
    reasons = {one.instruction.split(" = ")[-1].split("(")[0]: one.reason for one in form.left_out}
    assert reasons["marked"] == reasons["_cached"] == "TVM has no such primitive"
    assert reasons["annotate"] == "TVM applies a dict from a trace's JSON text only"
    assert "_cached, which is left out" in reasons["get_loops"]
    assert "get_loops, which is left out" in reasons["compute_at"]
    assert "parallel" not in reasons and "T.parallel" in form.mod.script()


@each
def test_every_record_is_exported(name: str, tmp_path: Path) -> None:
    sch = CASES[name]()
    database = Database()
    workload = sch.workload
    database.put_workload(workload.key, workload.name, to_json(workload.mod))
    [record] = database.append([record_of(workload, sch.trace, 1e-6)])
    report = export_json(database, tmp_path, target=TARGET)
    assert (report.records, report.unexpressed) == (1, ())
    assert [one.id for one in report.partial] == [record.id]
    theirs = JSONDatabase(work_dir=str(tmp_path))
    made = theirs.query_ir_module(workload.mod, TARGET.tvm_target(), "main")
    assert not structurally_equal(made, workload.mod)
    assert_same_numbers(made, workload, name)
    namespace: dict[str, Any] = {}
    exec(record_as_python(record, database), namespace)
    assert structurally_equal(namespace["sch"].mod, sch.mod)


def test_measured_records_come_before_those_in_part(tmp_path: Path) -> None:
    database = Database()
    database.put_workload(SOFTMAX.key, "softmax", to_json(SOFTMAX.mod))
    partial = with_vector_math(SOFTMAX).trace
    whole = sl.default_space(TARGET).without("vector_math").sample(SOFTMAX, seed=3)
    slow = sl.Schedule(SOFTMAX)
    database.append(
        [
            record_of(SOFTMAX, partial, 1e-6),
            record_of(SOFTMAX, whole.trace, 7e-6),
            record_of(SOFTMAX, slow.trace, 9e-6),
        ]
    )
    report = export_json(database, tmp_path, target=TARGET)
    assert report.records == 3 and len(report.partial) == 1
    theirs = JSONDatabase(work_dir=str(tmp_path))
    stored = theirs.get_top_k(theirs.commit_workload(SOFTMAX.mod), 3)
    assert [float(one.run_secs[0]) for one in stored] == pytest.approx([7e-6, 9e-6, 1.0])
    view = as_tvm_database(database, TARGET)
    found = view.get_top_k(stored[0].workload, 3)
    assert [float(one.run_secs[0]) for one in found] == pytest.approx([7e-6, 9e-6, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        best = view.query_ir_module(SOFTMAX.mod, TARGET.tvm_target(), "main")
    assert structurally_equal(best, whole.mod)


def test_draws_in_expressions_become_numbers_in_files(tmp_path: Path) -> None:
    workload = sl.workloads.matmul(32, 32, 32)
    sch = sl.Schedule(workload, seed=0)
    i, *_ = sch.get_loops(sch.get_block("C"))
    sch.split(i, [None, sch.sample_categorical([2, 4]) * 2])
    database = Database()
    database.put_workload(workload.key, "matmul", to_json(workload.mod))
    database.append([record_of(workload, sch.trace, 1e-6)])
    report = export_json(database, tmp_path, target=TARGET)
    assert (report.records, report.unexpressed, report.partial) == (1, (), ())
    made = JSONDatabase(work_dir=str(tmp_path)).query_ir_module(
        workload.mod, TARGET.tvm_target(), "main"
    )
    assert structurally_equal(made, sch.mod)


@I.ir_module
class Model:
    """A softmax."""

    @R.function
    def main(x: R.Tensor((16, 32), "float32")) -> R.Tensor((16, 32), "float32"):
        with R.dataflow():
            y = R.nn.softmax(x)
            R.output(y)
        return y


def test_tvms_pass_applies_a_record_with_vector_math_in_part() -> None:
    with TARGET.tvm_target():
        mod = relax.get_pipeline("zero")(Model)
    workload = sl.workloads.from_module(mod, function="softmax")
    database = Database()
    database.put_workload(workload.key, "softmax", to_json(workload.mod))
    [record] = database.append([record_of(workload, with_vector_math(workload).trace, 1e-6)])
    view = as_tvm_database(database, TARGET)
    with (
        TARGET.tvm_target(),
        view,
        pytest.warns(sl.PartialTraceWarning, match="softmax: record 1 .*replace_math_calls"),
    ):
        applied = relax.transform.MetaScheduleApplyDatabase()(mod)
    assert view.used == {"softmax": record} and view.missed == {}
    assert {one.reason for one in view.partial["softmax"]} == {"TVM has no such primitive"}
    assert applied["softmax"].attrs["tirx.is_scheduled"]
    assert "T.parallel" in applied["softmax"].script() or "T.vectorized" in applied.script()
    machine = relax.VirtualMachine(tvm.compile(applied, TARGET.tvm_target()), tvm.cpu())
    x = np.random.default_rng(0).standard_normal((16, 32)).astype("float32")
    wanted = np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)
    found = machine["main"](tvm.runtime.tensor(x)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
