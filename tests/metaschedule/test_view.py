"""TVM's passes look records up in schedlang's database, and make the tuned programs of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.s_tir import meta_schedule as ms
from tvm.script import ir as I, relax as R
from tvm.tirx.function import PrimFunc

import schedlang as sl
from schedlang.database import Database, open_database
from schedlang.errors import DatabaseError
from schedlang.metaschedule import TVMDatabase, as_tvm_database, export_json
from schedlang.tvm.program import as_main, structurally_equal, to_json
from tests.metaschedule.records import TARGET, add_drawn, record_of

SHAPES = ((16, 32), (32, 48), (48, 24), (24, 40))


@I.ir_module
class Model:
    """Three matmuls; a relu is fused into the first."""

    @R.function
    def main(
        x: R.Tensor((16, 32), "float32"),
        a: R.Tensor((32, 48), "float32"),
        b: R.Tensor((48, 24), "float32"),
        c: R.Tensor((24, 40), "float32"),
    ) -> R.Tensor((16, 40), "float32"):
        with R.dataflow():
            first = R.nn.relu(R.matmul(x, a))
            second = R.matmul(first, b)
            third = R.matmul(second, c)
            R.output(third)
        return third


def lowered() -> IRModule:
    """The model's functions as a tuner sees them."""
    with TARGET.tvm_target():
        return relax.get_pipeline("zero")(Model)


MOD = lowered()
NAMES = sorted(v.name_hint for v, f in MOD.functions.items() if isinstance(f, PrimFunc))


def workload_of(name: str) -> sl.Workload:
    return sl.workloads.from_module(MOD, function=name)


def body_of(mod: IRModule, name: str = "main") -> IRModule:
    """One function, without its attributes."""
    func = mod[name]
    for attribute in list(func.attrs.keys()):
        func = func.without_attr(attribute)
    return as_main(func)


def apply_with(view: Any) -> IRModule:
    with TARGET.tvm_target(), view:
        return relax.transform.MetaScheduleApplyDatabase()(MOD)


def check_output(executable: Any) -> None:
    rng = np.random.default_rng(0)
    x, a, b, c = (rng.standard_normal(shape).astype("float32") for shape in SHAPES)
    machine = relax.VirtualMachine(executable, tvm.cpu())
    found = machine["main"](*(tvm.runtime.tensor(value) for value in (x, a, b, c))).numpy()
    wanted = np.maximum(x @ a, 0) @ b @ c
    assert np.abs(wanted).max() > 1
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


@pytest.fixture
def drawn() -> Callable[..., tuple[Database, dict[str, list[sl.Schedule]]]]:
    def make(*names: str) -> tuple[Database, dict[str, list[sl.Schedule]]]:
        database = Database()
        return database, {name: add_drawn(database, workload_of(name)) for name in names}

    return make


def test_three_matmuls_are_compiled_from_what_tune_stored(tmp_path: Path) -> None:
    """The whole way: tune each function into a file, and let TVM's own passes apply it."""
    path = tmp_path / "tune.db"
    assert len(NAMES) == 3
    for name in NAMES:
        sl.tune(workload_of(name), TARGET, trials=4, verify="all", finals=0, database=path, batch=4)
    view = as_tvm_database(path)
    applied = apply_with(view)
    assert sorted(view.used) == NAMES and not view.missed
    with open_database(path, read_only=True) as database:
        for name in NAMES:
            workload = workload_of(name)
            (best,) = database.best(workload.key, TARGET.key)
            assert view.used[name].trace_json == best.trace_json
            tuned = sl.Trace.from_json(best.trace_json, workload).replay().mod
            assert structurally_equal(body_of(applied, name), body_of(tuned))
            assert applied[name].attrs["tirx.is_scheduled"]
    check_output(ms.relax_integration.compile_relax(view, Model, TARGET.tvm_target(), None))
    view.close()


def test_the_fastest_verified_record_is_taken(drawn: Any) -> None:
    database, schedules = drawn(NAMES[0])
    workload = workload_of(NAMES[0])
    unverified = sl.Schedule(workload).trace
    database.append([record_of(workload, unverified, 1e-9, verified=False)])
    applied = apply_with(as_tvm_database(database))
    assert structurally_equal(body_of(applied, NAMES[0]), body_of(schedules[NAMES[0]][0].mod))
    view = as_tvm_database(database, verified=False)
    assert structurally_equal(body_of(apply_with(view), NAMES[0]), body_of(MOD, NAMES[0]))
    assert view.used[NAMES[0]].verified is False


def test_what_is_missed_says_why(drawn: Any) -> None:
    database, _ = drawn(NAMES[0])
    other, unverified = workload_of(NAMES[1]), workload_of(NAMES[2])
    for workload in (other, unverified):
        database.put_workload(workload.key, workload.name, to_json(workload.mod))
    trace = sl.Schedule(other).trace
    database.append([record_of(other, trace, 1e-6, target_key="a machine")])
    view = as_tvm_database(database)
    applied = apply_with(view)
    assert sorted(view.used) == NAMES[:1]
    assert view.missed == {
        NAMES[1]: f"it has no record for {TARGET.key}, but for a machine",
        NAMES[2]: "no record of it has a latency",
    }
    assert structurally_equal(applied[NAMES[1]], MOD[NAMES[1]])
    database.append([record_of(unverified, sl.Schedule(unverified).trace, 1e-6, verified=False)])
    view = as_tvm_database(database, toolchain_key="of another day")
    apply_with(view)
    assert view.missed[NAMES[0]] == "it has no record of of another day"
    view = as_tvm_database(database)
    apply_with(view)
    assert view.missed[NAMES[2]] == ("none of its 1 records is verified; verified=False takes them")
    assert (
        as_tvm_database(Database()).query_tuning_record(
            as_main(MOD[NAMES[0]]), TARGET.tvm_target(), "f"
        )
        is None
    )


def test_a_record_that_tvm_cannot_hold_gives_way_to_one_that_was_measured(drawn: Any) -> None:
    database, schedules = drawn(NAMES[0])
    workload = workload_of(NAMES[0])
    sch = sl.Schedule(workload)
    sch.annotate(sch.get_child_blocks(sch.get_block("root"))[0], "note", {"a": 1})
    [record] = database.append([record_of(workload, sch.trace, 9e-7)])
    view = as_tvm_database(database)
    applied = apply_with(view)
    assert structurally_equal(body_of(applied, NAMES[0]), body_of(schedules[NAMES[0]][0].mod))
    assert view.partial == {}
    database.delete(one.id for one in database.query() if one.id != record.id)
    view = as_tvm_database(database)
    with pytest.warns(sl.PartialTraceWarning, match=f"record {record.id} is applied in part.*dict"):
        applied = apply_with(view)
    assert structurally_equal(body_of(applied, NAMES[0]), body_of(MOD, NAMES[0]))
    assert view.used[NAMES[0]].id == record.id and NAMES[0] not in view.missed
    ((left_out,),) = view.partial.values()
    assert left_out.instruction.startswith("annotate(")


def test_it_is_a_database_of_tvm(drawn: Any) -> None:
    database, schedules = drawn(*NAMES[:2])
    view = as_tvm_database(database, TARGET)
    assert isinstance(view, TVMDatabase) and isinstance(view, ms.database.Database)
    mod = as_main(MOD[NAMES[0]])
    workload = ms.database.Workload(mod)
    target = TARGET.tvm_target()
    assert view.has_workload(mod) and not view.has_workload(as_main(MOD[NAMES[2]]))
    assert len(view) == 4 and len(view.get_all_tuning_records()) == 4
    fastest, slower = view.get_top_k(workload, 5)
    assert float(fastest.run_secs[0]) < float(slower.run_secs[0])
    assert view.get_top_k(workload, 0) == []
    best = schedules[NAMES[0]][0].mod
    assert structurally_equal(body_of(view.query_ir_module(mod, target, "f")), body_of(best))
    assert structurally_equal(body_of(view.query_schedule(mod, target, "f").mod), body_of(best))
    assert view.query_schedule(as_main(MOD[NAMES[2]]), target, "g") is None
    assert view.missed == {"g": "its program is not in the database"}
    # TVM passes an error of a method it calls on as a RuntimeError.
    with pytest.raises(DatabaseError, match="this view of a schedlang database is for reading"):
        view.commit_tuning_record(fastest)


def test_records_that_come_later_are_found(drawn: Any) -> None:
    database, _ = drawn(NAMES[0])
    view = as_tvm_database(database)
    apply_with(view)
    assert sorted(view.missed) == NAMES[1:]
    for name in NAMES[1:]:
        add_drawn(database, workload_of(name), 1)
    apply_with(view)
    assert sorted(view.used) == NAMES and not view.missed


def test_a_damaged_program_is_passed_over(drawn: Any) -> None:
    database, _ = drawn(NAMES[0])
    database.put_workload("0" * 16, "damaged", '{"nodes": [], "root_index": 3}')
    view = as_tvm_database(database, TARGET)
    apply_with(view)
    assert sorted(view.used) == NAMES[:1]
    with pytest.warns(sl.UnreadableWarning, match="program of workload 0{16} \\('damaged'\\)"):
        assert len(view.get_all_tuning_records()) == 2


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="none.db"):
        as_tvm_database(tmp_path / "none.db")


def test_tvms_own_json_database_applies_what_was_exported(drawn: Any, tmp_path: Path) -> None:
    database, _ = drawn(*NAMES)
    export_json(database, tmp_path, target=TARGET)
    ours = apply_with(as_tvm_database(database))
    theirs = apply_with(ms.database.JSONDatabase(work_dir=str(tmp_path)))
    for name in NAMES:
        assert structurally_equal(ours[name], theirs[name])
