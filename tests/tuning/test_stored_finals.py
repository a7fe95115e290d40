"""What the finals of runs decided is what a look-up returns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database, merge
from schedlang.metaschedule import as_tvm_database
from schedlang.testing.spaces import ORDINARY, small_workload
from tests.tuning.scripted import Scripted

WORKLOAD = small_workload()
CLOSE = (1e-5, 1.05e-5, 1.08e-5)
# The second of the search wins.
TURNED = {0: 1.2e-5, 1: 1.0e-5, 2: 1.1e-5}


@pytest.fixture
def database() -> Iterator[Database]:
    with Database() as made:
        yield made


def tune(measurer: Any, database: Any, **given: Any) -> sl.TuneResult:
    arguments: dict[str, Any] = {
        "trials": len(measurer.latencies),
        "space": ORDINARY,
        "search": "random",
    } | given
    return sl.tune(WORKLOAD, measurer=measurer, database=database, progress=False, **arguments)


def found_in(database: Any) -> sl.tuning.Match:
    found = sl.best(WORKLOAD, "cpu", database)
    assert found is not None
    return found


def test_the_winner_of_the_finals_is_what_a_look_up_returns(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    result = tune(Scripted(CLOSE, 1e-3, TURNED), path)
    assert result.best.record.latency == pytest.approx(1.05e-5, rel=0.01)
    assert found_in(path).record == result.best.record
    with Database(path) as database, Database() as copy:
        entries = database.finals(WORKLOAD.key)
        assert [entry.place for entry in entries] == [0, 1, 2]
        assert entries[0].record_id == result.best.record.id
        assert len({entry.held for entry in entries}) == 1
        assert result.best.finals is not None
        assert entries[0].samples == result.best.finals.winner.samples
        view = as_tvm_database(database)
        assert view.query_tuning_record(WORKLOAD.mod, None, "main") is not None
        assert view.used["main"] == result.best.record
        for _ in range(2):
            merge(database, copy)
            assert len(copy.finals()) == 3
            assert found_in(copy).record.program_key == result.best.record.program_key


def test_a_finalist_that_failed_is_never_returned(database: Database) -> None:
    result = tune(Scripted(CLOSE, 1e-3, TURNED | {0: None}), database)
    assert found_in(database).record == result.best.record
    assert result.rejected["crashed"] == 1
    everyone = {0: None, 1: None, 2: None}
    result = tune(Scripted(CLOSE, 1e-3, everyone), database, remeasure=True)
    assert result.best.unscheduled, "it is slow, and all that is left"


def test_finals_that_were_not_needed_decide_as_well(database: Database) -> None:
    measurer = Scripted((1e-5, 2e-5, 3e-5), 1e-3)
    result = tune(measurer, database)
    assert measurer.finalists == []
    finals = result.best.finals
    assert finals is not None and not finals.held and result.best.runner_up is None
    assert result.best.confidence_interval is not None
    assert "  finals      not needed: no other program is near the fastest\n" in str(result)
    assert [entry.place for entry in database.finals()] == [0]
    again = tune(measurer, database)
    assert again.best.finals == finals and measurer.finalists == []


def test_the_newest_finals_count(database: Database) -> None:
    tune(Scripted(CLOSE, 1e-3, TURNED), database, transfer=False)
    second = tune(Scripted(CLOSE, 1e-3, TURNED), database, seed=1, transfer=False)
    assert found_in(database).record == second.best.record


def test_a_clearly_faster_record_beats_them(database: Database) -> None:
    tune(Scripted(CLOSE, 1e-3, TURNED), database, transfer=False)
    near = tune(Scripted((0.97e-5,), 1e-3), database, seed=1, transfer=False, trials=1, finals=0)
    assert found_in(database).record != near.best.record
    far = tune(Scripted((0.8e-5,), 1e-3), database, seed=2, transfer=False, trials=1, finals=0)
    assert found_in(database).record == far.best.record


def test_only_who_could_win_takes_part() -> None:
    measurer = Scripted((1e-5, 1.05e-5, 1.3e-5), 1e-3)
    tune(measurer, None)
    assert measurer.finalists == [[0, 1]]


def test_where_all_who_could_win_fail_it_is_the_turn_of_the_others() -> None:
    measurer = Scripted((1e-5, 1.05e-5, 3e-5), 1e-3, {0: None, 1: None})
    result = tune(measurer, None)
    assert measurer.finalists == [[0, 1]]
    assert result.best.latency == pytest.approx(3e-5, rel=0.01)
    assert result.rejected["crashed"] == 2
