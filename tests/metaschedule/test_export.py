"""What schedlang exports, TVM's own JSONDatabase opens, looks up and applies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.database import JSONDatabase

import schedlang as sl
from schedlang.database import Database
from schedlang.errors import DatabaseError
from schedlang.metaschedule import export_json, import_json, record_as_python
from schedlang.tvm.program import from_json, structural_key, structurally_equal, to_json
from tests.metaschedule import peer
from tests.metaschedule.records import TARGET, add_drawn, record_of

GMM = sl.workloads.matmul(32, 32, 32)
SOFTMAX = sl.workloads.softmax(16, 16)


def test_tvm_opens_it_and_its_traces_apply(tmp_path: Path) -> None:
    database = Database()
    programs = {w: add_drawn(database, w, 3) for w in (GMM, SOFTMAX)}
    report = export_json(database, tmp_path / "out", target=TARGET)
    assert (report.records, report.workloads, report.unexpressed) == (6, 2, ())
    assert str(report).startswith("6 records of 2 workloads in ")
    theirs = JSONDatabase(work_dir=str(tmp_path / "out"))
    assert len(theirs) == 6
    for workload, schedules in programs.items():
        assert theirs.has_workload(workload.mod)
        found = theirs.get_top_k(theirs.commit_workload(workload.mod), 3)
        for record, ours in zip(found, schedules, strict=True):
            sch = Schedule(workload.mod)
            record.trace.apply_to_schedule(sch, False)
            assert structurally_equal(sch.mod, ours.mod)
        assert [float(s) for s in found[0].run_secs] == pytest.approx([1e-6, 2e-6, 3e-6])
        best = theirs.query_ir_module(workload.mod, TARGET.tvm_target(), "main")
        assert structurally_equal(best, schedules[0].mod)


def test_there_and_back(tmp_path: Path) -> None:
    database, other = Database(), Database()
    schedules = add_drawn(database, GMM, 4) + add_drawn(database, SOFTMAX, 2)
    export_json(database, tmp_path, target=TARGET)
    report = import_json(tmp_path, database=other, target=TARGET)
    assert (report.records, report.skipped) == (6, ())
    assert {r.program_key for r in other.query()} == {structural_key(s.mod) for s in schedules}
    assert [r.samples for r in other.query()] == [r.samples for r in database.query()]
    assert [r.target_key for r in other.query()] == [TARGET.key] * 6


def test_from_metaschedule_and_back(tmp_path: Path) -> None:
    schedules = peer.write_database(tmp_path, [GMM], peer.CPU)
    database = Database()
    import_json(tmp_path, database=database, target=TARGET)
    report = export_json(database, tmp_path / "out", target=TARGET, verified=False)
    assert (report.records, report.unexpressed) == (len(schedules), ())
    theirs = JSONDatabase(work_dir=str(tmp_path / "out"))
    best = theirs.query_ir_module(GMM.mod, peer.CPU, "main")
    assert structurally_equal(best, schedules[0].mod)


def test_the_best_of_one_workload(tmp_path: Path) -> None:
    database = Database()
    schedules = add_drawn(database, GMM, 3)
    add_drawn(database, SOFTMAX, 3)
    report = export_json(database, tmp_path, target=TARGET, workload=GMM, n=1)
    assert (report.records, report.workloads) == (1, 1)
    best = JSONDatabase(work_dir=str(tmp_path)).query_ir_module(GMM.mod, peer.CPU, "main")
    assert structurally_equal(best, schedules[0].mod)
    with pytest.raises(ValueError, match="n=0; give 1 or more"):
        export_json(database, tmp_path, target=TARGET, n=0)


def test_what_tvm_cannot_apply_is_left_out_and_counted(tmp_path: Path) -> None:
    database = Database()
    add_drawn(database, GMM, 1)
    with_dict = sl.Schedule(GMM)
    with_dict.annotate(with_dict.get_block("C"), "note", {"a": 1})
    elsewhere = sl.Schedule(SOFTMAX)
    elsewhere.get_block("row_max")
    trace = with_dict.trace
    database.append(
        [
            record_of(GMM, trace, 1e-7),
            record_of(GMM, trace, 2e-7, trace_json="{"),
            record_of(GMM, elsewhere.trace, 3e-7),
            record_of(GMM, trace, 4e-7, verified=False),
        ]
    )
    report = export_json(database, tmp_path, target=TARGET, n=2)
    assert report.records == 2
    assert report.reasons == {
        "unreadable trace": 1,
        "does not apply": 1,
        "not verified": 1,
    }
    (partial,) = report.partial
    assert partial.id == 2
    assert "annotate" in str(partial) and "TVM applies a dict from a trace's JSON text only" in str(
        partial
    )
    assert str(report).startswith("2 records (1 of them in part) of 1 workloads in ")
    assert len(JSONDatabase(work_dir=str(tmp_path))) == 2


def test_it_replaces_what_is_there_and_leaves_nothing_else(tmp_path: Path) -> None:
    database = Database()
    add_drawn(database, GMM, 1)
    for _ in range(2):
        export_json(database, tmp_path, target=TARGET)
        assert sorted(os.listdir(tmp_path)) == sorted([peer.RECORDS, peer.WORKLOADS])
        assert len(JSONDatabase(work_dir=str(tmp_path))) == 1
    with pytest.raises(DatabaseError, match="export to another folder"):
        export_json(database, tmp_path / peer.RECORDS, target=TARGET)


@pytest.mark.slow
def test_a_record_as_python_needs_tvm_only(tmp_path: Path) -> None:
    database = Database()
    (schedule,) = add_drawn(database, GMM, 1)
    (record,) = database.query()
    source = record_as_python(record, database)
    head = source.splitlines()[:4]
    assert head[0] == f"# matmul (workload {GMM.key})"
    assert head[1] == (f"# on {TARGET.key}: 2 us, median of 3 times; its results were compared")
    assert head[2] == "# found by made up, measured 2023-11-14 with t"
    assert "schedlang" not in source
    script = tmp_path / "program.py"
    script.write_text(source + "print(tvm.ir.save_json(sch.mod))\n", encoding="utf-8")
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    made = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=True
    )
    assert structurally_equal(from_json(made.stdout), schedule.mod)


def test_drawn_values_become_numbers_where_tvm_takes_no_others(tmp_path: Path) -> None:
    workload = sl.workloads.matmul(30, 30, 30)
    sch = sl.Schedule(workload, seed=0)
    multiple = sch.sample_categorical([16, 32])
    sch.pad_einsum(sch.get_block("C"), [1, multiple, 1])
    database = Database()
    database.put_workload(workload.key, "padded", to_json(workload.mod))
    [record] = database.append([record_of(workload, sch.trace, 1e-6)])
    assert export_json(database, tmp_path, target=TARGET).unexpressed == ()
    best = JSONDatabase(work_dir=str(tmp_path)).query_ir_module(workload.mod, peer.CPU, "main")
    assert structurally_equal(best, sch.mod)
    made: dict[str, object] = {}
    exec(record_as_python(record, database), made)
    assert structurally_equal(made["sch"].mod, sch.mod)


def test_a_record_without_its_program_says_so() -> None:
    database = Database()
    record = record_of(GMM, sl.Schedule(GMM).trace, 1e-6)
    with pytest.raises(DatabaseError, match="does not hold the workload's program; put it there"):
        record_as_python(record, database)
    database.put_workload(GMM.key, "GMM", to_json(GMM.mod)[:100])
    with pytest.raises(DatabaseError, match="its program cannot be read: .*not JSON"):
        record_as_python(record, database)
