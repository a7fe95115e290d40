"""Runs as they are read afterwards."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.database import (
    Database,
    Record,
    Rejections,
    Run,
    RunDetails,
    TrialDetails,
    history,
    merge,
    prune,
)
from schedlang.database.record import UNSCHEDULED
from schedlang.errors import DatabaseError
from schedlang.measurement import Status
from schedlang.measurement.clock import Phase, PhaseLog, check_phases
from tests.database.plausible import make_entry, make_record, make_run
from tests.tuning.scripted import Scripted


def tuned(database: Database) -> tuple[Run, list[Record]]:
    """Store a run of three candidates, the second of which failed, with all that belongs to it."""
    database.put_workload("w", "GMM", "{}")
    run = database.add_run(make_run(notes="first try", tags=("avx2",)))
    assert run.id is not None
    records = database.append(
        [
            make_record(run_id=run.id, search=UNSCHEDULED, created=1.7e9 + 1),
            make_record(run_id=run.id, proposal=0, created=1.7e9 + 2),
            make_record(run_id=run.id, proposal=1, status=Status.CRASHED),
            make_record(run_id=run.id, proposal=2, created=1.7e9 + 4),
        ]
    )
    database.add_details(
        run.id,
        RunDetails(
            tuple(
                TrialDetails(one.id or 0, n % 2, (Phase("build", 1.7e9 + n, 1.7e9 + n + 1),))
                for n, one in enumerate(records[1:])
            ),
            (Phase("start", 1.7e9, 1.7e9 + 1), Phase("finals", 1.7e9 + 5, 1.7e9 + 7)),
            (Rejections("tile", "split", "C", "instruction", 4, "too long"),),
        ),
    )
    database.add_finals(
        [
            make_entry(records[3], held=1.7e9 + 6),
            make_entry(records[1], held=1.7e9 + 6, place=1),
        ]
    )
    return run, records


def finish(database: Database, run: Run, told: list[Record], unscheduled: Record) -> None:
    ids = [one.id for one in told]
    outcome = {"records": ids, "unscheduled": unscheduled.id, "finished": "3 trials"}
    database.update_run(dataclasses.replace(run, outcome=json.dumps(outcome)))


def test_a_run_is_read_with_all_that_belongs_to_it(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with Database(path) as database:
        run, records = tuned(database)
        finish(database, run, records[1:], records[0])
    found = history(path)
    assert found.run.id == run.id and (found.run.notes, found.run.tags) == ("first try", ("avx2",))
    assert (found.name, found.unscheduled, list(found.records)) == ("GMM", records[0], records[1:])
    assert [found.trials[one.id or 0].worker for one in records[1:]] == [0, 1, 0]
    assert [one.activity for one in found.phases] == ["start", "finals"]
    assert [one.record_id for one in found.finals] == [records[3].id, records[1].id]
    assert [(one.place, one.count) for one in found.rejections] == [
        (("tile", "split", "C", "instruction"), 4),
        (("", "", "", "crashed"), 1),
    ]
    assert (found.lacks, found.finished) == ({}, "3 trials")
    assert found.seconds_at(1.7e9 + 6) == 2.0, "the gap does not count"
    assert history(path, run.id) == found


def test_records_come_in_the_order_of_the_search_and_of_other_runs() -> None:
    database = Database()
    (theirs,) = database.append([make_record(message="of another run")])
    run, records = tuned(database)
    finish(database, run, [records[2], theirs, records[1]], records[0])
    found = history(database)
    assert list(found.records) == [records[2], theirs, records[1], records[3]]
    assert found.finished == "", "it went on to one more"
    assert theirs.id not in found.trials


def test_an_interrupted_run_has_what_was_stored() -> None:
    database = Database()
    run, records = tuned(database)
    database.delete([records[0].id or 0])
    found = history(database)
    assert list(found.records) == records[1:]
    assert found.unscheduled is None
    assert found.lacks.keys() == {"unscheduled"}
    # Another run measured the unscheduled program, and this one took it over.
    (theirs,) = database.append([make_record(search=UNSCHEDULED, program_key="w")])
    assert history(database).unscheduled == theirs
    # Records may have been deleted one by one.
    database.delete([records[2].id or 0])
    assert list(history(database).records) == [records[1], records[3]]


def test_the_newest_run_is_read_unless_another_is_named(tmp_path: Path) -> None:
    with Database(tmp_path / "tune.db") as database:
        with pytest.raises(DatabaseError, match=r"tune\.db holds no run: records that were"):
            history(database)
        old = database.add_run(make_run(created=2.0))
        older = database.add_run(make_run(created=1.0))
        assert history(database).run == old
        assert history(database, older.id).run == older
        with pytest.raises(DatabaseError, match=r"tune\.db holds no run 9; it has 1, 2$"):
            history(database, 9)
        with pytest.raises(TypeError, match="run_id='1'; give the id of a run, a whole number"):
            history(database, "1")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="from a database or its path, not NoneType"):
        history(None)  # type: ignore[arg-type]
    with pytest.raises(DatabaseError, match=re.escape("there is no such file to read")):
        history(tmp_path / "missing.db")


def test_a_run_has_the_name_that_it_gave_its_workload(tmp_path: Path) -> None:
    """Two runs of one program in one file may call it differently."""
    for seed, name in enumerate(("matmul", "my product")):
        named = sl.Workload(sl.workloads.matmul(16, 16, 16).mod, name)
        sl.tune(
            named,
            trials=1,
            seed=seed,
            search="random",
            transfer=False,
            measurer=Scripted([1e-3, 2e-3], 5e-3),
            database=tmp_path / "tune.db",
        )
    assert history(tmp_path / "tune.db", 1).name == "matmul"
    assert history(tmp_path / "tune.db", 2).name == "my product"


def test_what_is_missing_is_said() -> None:
    database = Database()
    run = database.add_run(make_run())
    assert run.id is not None
    (record,) = database.append([make_record(run_id=run.id)])
    found = history(database)
    assert found.lacks.keys() == {"time line", "rejections", "finals", "unscheduled"}
    assert "the first batch of the run has not ended" in found.lacks["time line"]
    assert found.lacks["rejections"] == found.lacks["time line"]
    assert "interrupted before its finals" in found.lacks["finals"]
    assert found.name == record.workload_name, "its program is not stored"
    database.add_details(run.id, RunDetails(phases=(Phase("search", 1.0, 2.0),)))
    finish(database, run, [record], record)
    found = history(database)
    assert found.lacks.keys() == {"time line", "finals"}
    assert "the measurer does not tell" in found.lacks["time line"]
    assert re.match("no finals were held: .* the run ended: 3 trials", found.lacks["finals"])
    other = database.add_run(make_run(created=1.8e9))
    database.add_details(other.id or 0, RunDetails(phases=(Phase("search", 1.0, 2.0),)))
    finish(database, other, [record], record)
    assert "its records are of other runs" in history(database).lacks["time line"]
    empty = database.add_run(make_run(created=1.85e9))
    database.add_details(empty.id or 0, RunDetails(phases=(Phase("search", 1.0, 2.0),)))
    finish(database, empty, [], record)
    assert history(database).lacks["time line"] == "no candidate was measured"
    old = database.add_run(make_run(created=1.9e9))
    finish(database, old, [record], record)
    lacks = history(database).lacks
    for what in ("time line", "rejections", "finals"):
        assert "version of schedlang that did not keep it" in lacks[what]


def test_finals_of_other_runs_are_not_its_own() -> None:
    database = Database()
    run, records = tuned(database)
    (other,) = database.append([make_record()])
    # Another run took both over, and held finals of its own later.
    database.add_finals([make_entry(records[1], held=1.7e9 + 9), make_entry(other, held=1.7e9 + 9)])
    database.add_finals([make_entry(records[1], held=1.7e9 + 20)])
    assert {one.held for one in history(database).finals} == {1.7e9 + 6}
    database.add_finals([make_entry(records[1], held=1.7e9 + 6.5)])
    assert {one.held for one in history(database).finals} == {1.7e9 + 6.5}, "the newest"


def test_places_of_failures_are_not_counted_twice() -> None:
    database = Database()
    run = database.add_run(make_run())
    assert run.id is not None
    database.append(
        make_record(run_id=run.id, status=Status.REJECTED, message="threads: 2048") for _ in "abc"
    )
    known = Rejections("bind", "bind", "C", "threads", 2, "threads: 2048")
    database.add_details(run.id, RunDetails(rejections=(known,)))
    assert history(database).rejections == (
        known,
        Rejections("", "", "", "threads", 1, "threads: 2048"),
    )


def test_merged_and_pruned_databases_keep_histories(tmp_path: Path) -> None:
    source = Database()
    source.append([make_record(message="moves all ids", created=1.0)])
    run, records = tuned(source)
    finish(source, run, records[1:], records[0])
    into = Database()
    into.append([make_record(workload_key="x")] * 5)
    into.add_run(make_run(created=1.0))
    merge(source, into)
    before, after = history(source), history(into)
    assert before.run.id != after.run.id
    assert [one.created for one in after.records] == [one.created for one in before.records]
    assert [trial.phases for trial in after.trials.values()] == [
        trial.phases for trial in before.trials.values()
    ]
    assert list(after.trials) == [one.id for one in after.records]
    assert (after.phases, after.rejections) == (before.phases, before.rejections)
    assert [one.place for one in after.finals] == [0, 1]
    assert after.lacks == {}
    prune(into, keep_best=0, workload_key="x")
    assert history(into) == after
    prune(into, failures=True)
    with pytest.raises(DatabaseError, match=rf"holds no run {after.run.id}; it has 1"):
        history(into, after.run.id)
    assert into.details(after.run.id or 0) == RunDetails()


@pytest.mark.parametrize(
    ("phase", "message"),
    [
        (("run", 2.0, 1.0), "it ends before it begins"),
        (("run", 1.0, float("nan")), "seconds since 1970"),
        (("run", 1.0), "give Phase"),
        (("", 1.0, 2.0), "its activity is no text"),
        (("run", 10**400, 2.0), "too large"),
        (("run", 1.0, 2.0, -1), "worker=-1; workers are numbered from 0"),
        (7, "give Phase"),
    ],
)
def test_what_is_no_phase_is_refused(phase: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_phases([phase])
    with pytest.raises(ValueError, match=message):
        TrialDetails(1, 0, (phase,))  # type: ignore[arg-type]


def test_a_log_notes_one_activity_after_the_other() -> None:
    log = PhaseLog()
    log.enter("build")
    log.enter("run")
    log.enter("")
    log.enter("verify")
    log.enter("verify")
    assert log.activity == "verify" and len(log.phases) == 3
    phases = log.take()
    assert [one.activity for one in phases] == ["build", "run", "verify"]
    assert check_phases(phases) == phases
    assert (log.take(), log.phases, log.activity) == ((), (), "")
    log.enter("start", seconds_ago=5.0)
    log.enter("search", seconds_ago=2.0)
    log.enter("finals", seconds_ago=100.0)
    start, search, finals = log.phases
    assert 3.0 <= start.end - start.begin < 4.0
    assert search.end - search.begin == 0.0, "nothing ends before it begins"
    assert finals.end - finals.begin >= 2.0
