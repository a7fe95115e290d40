"""What a report and ``read_result`` say of a run is what its result says, however it ended."""

from __future__ import annotations

import copy
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import history, open_database
from schedlang.database.past_runs import NOT_ENDED, outcome_of
from schedlang.measurement.disturbance import CoreUse
from schedlang.report.facts import Context, tiles
from schedlang.targets.measure.contention import CoreWatch
from schedlang.tuning import read_result
from tests.tuning.scripted import Scripted, measured

WORKLOAD = sl.workloads.matmul(64, 64, 64)
LATENCIES = [3e-3, None, 1e-3, 2e-3, 4e-3, 4e-3, 4e-3, 4e-3, 5e-4]


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV) -> None:
    for loop, name in zip(sch.get_loops(block), "ijk", strict=True):
        sch.split(loop, sch.sample_perfect_tile(loop, n=2, name=name))


SPACE = sl.Space([tile])


def tune(measurer: Scripted, **options: Any) -> sl.TuneResult:
    given: dict[str, Any] = {"trials": 8, "search": "random", "batch": 4, "finals": 2}
    return sl.tune(WORKLOAD, space=SPACE, measurer=measurer, **(given | options))


def interrupted(**options: Any) -> sl.TuneResult:
    with pytest.warns(sl.InterruptedWarning):
        return tune(Scripted(LATENCIES, interrupted_at=5, **options))


ENDS: dict[str, Callable[[], sl.TuneResult]] = {
    "with finals": lambda: tune(Scripted(LATENCIES, reference=5e-3)),
    "without": lambda: tune(Scripted(LATENCIES, reference=5e-3), finals=0),
    "no candidate is faster": lambda: tune(Scripted(LATENCIES, reference=1e-5)),
    "nor without finals": lambda: tune(Scripted(LATENCIES, reference=1e-5), finals=0),
    "all failed": lambda: tune(Scripted([None], reference=5e-3)),
    "cut off": lambda: tune(Scripted(LATENCIES, reference=5e-3, complete=False)),
    "interrupted": lambda: interrupted(reference=5e-3),
    "interrupted, and slow": lambda: interrupted(reference=1e-5),
    "not verified": lambda: tune(Unverified(LATENCIES, reference=5e-3), verify=False),
}


class Unverified(Scripted):
    """A measurer that compares no results."""

    def measure(self, candidates: Any) -> Any:
        return (replace(one, verified=False) for one in super().measure(candidates))

    def remeasure(self, *args: Any, **options: Any) -> Any:
        return [replace(one, verified=False) for one in super().remeasure(*args, **options)]


@pytest.mark.parametrize("how", ENDS)
@pytest.mark.parametrize("saved", [False, True], ids=["its result", "as saved"])
def test_a_report_names_the_winner_of_the_result(how: str, saved: bool, tmp_path: Path) -> None:
    result = ENDS[how]()
    shown = result.history
    if saved:
        result.save(tmp_path / "saved.db")
        shown = history(tmp_path / "saved.db")
        again = read_result(tmp_path / "saved.db")
        assert again.best.unscheduled == result.best.unscheduled
        assert (again.best.latency, again.speedup) == (result.best.latency, result.speedup)
        assert again.rejected == result.rejected and again.interrupted == result.interrupted
        assert again.reference_complete == result.reference_complete
        assert sum(again.time_split.values()) == pytest.approx(again.seconds, abs=0.02)
        again = replace(again, earlier=0)
        assert str(sl.explain(again)) == str(sl.explain(result))
    found = outcome_of(shown)
    assert found.winner is not None
    assert found.winner.trace_json == result.best.record.trace_json
    assert (found.latency, found.speedup) == (result.best.latency, result.speedup)
    assert found.reference == result.reference_latency
    assert found.complete == result.reference_complete
    assert tuple(found.space) == ("tile",)
    assert found.seconds <= result.seconds


def test_a_killed_run_has_the_result_so_far(tmp_path: Path) -> None:
    """The file of an interrupted run is that of a killed one: nothing was written at the end."""
    path = tmp_path / "tune.db"
    with pytest.warns(sl.InterruptedWarning):
        expected = tune(Scripted(LATENCIES, 5e-3, interrupted_at=5), database=path)
    found = read_result(path)
    assert found.interrupted and found.finished == NOT_ENDED
    assert str(found).endswith(f"ended       {NOT_ENDED}")
    assert (len(found.records), found.best.latency) == (5, expected.best.latency)


def test_a_killed_run_without_verification_is_not_won_by_the_unscheduled_program(
    tmp_path: Path,
) -> None:
    path = tmp_path / "tune.db"
    with pytest.warns(sl.InterruptedWarning):
        measurer = Unverified(LATENCIES, 5e-3, interrupted_at=5)
        expected = tune(measurer, database=path, verify=False)
    assert not expected.best.unscheduled
    assert read_result(path).best.record.id == expected.best.record.id
    assert outcome_of(history(path)).winner == expected.best.record


def test_a_run_that_went_on_is_not_told_by_its_earlier_end(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    tune(Scripted(LATENCIES, 5e-3), database=path)
    with pytest.warns(sl.InterruptedWarning):
        expected = tune(Scripted(LATENCIES, 5e-3, interrupted_at=10), database=path, trials=12)
    assert (len(expected.records), expected.best.latency) == (10, pytest.approx(5e-4, rel=0.01))
    found = read_result(path)
    assert (len(found.records), found.finished) == (10, NOT_ENDED)
    assert (found.best.record.id, found.rejected) == (
        expected.best.record.id,
        expected.rejected,
    )
    for shown in (expected.history, history(path)):
        outcome = outcome_of(shown)
        assert outcome.winner == expected.best.record, "the finals are older than the winner"
        assert outcome.seconds == pytest.approx(shown.seconds_at(math.inf))
        assert tuple(outcome.space) == ("tile",)
    # Ended without finals: those of the first call do not count either.
    ended = tune(Scripted(LATENCIES, 5e-3), database=path, trials=12, finals=0)
    assert outcome_of(history(path)).winner == ended.best.record
    assert read_result(path).best.record == ended.best.record


def test_the_parts_of_the_time_of_a_stored_run_are_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    tune(Scripted(LATENCIES, 5e-3), database=path)
    with open_database(path) as database:
        # As if the first call had taken long.
        run = database.runs()[0]
        assert run.id is not None
        database.update_run(replace(run, outcome=_with_seconds(run.outcome, 100.0)))
    tune(Scripted(LATENCIES, 5e-3), database=path, trials=12)
    found = read_result(path)
    assert found.seconds > 100 and sum(found.time_split.values()) == pytest.approx(found.seconds)
    assert found.time_split["earlier"] == pytest.approx(100, abs=0.1)


def test_what_others_used_of_the_cores_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, use = tmp_path / "tune.db", CoreUse(2.0, 4, 1.7, 0.1)
    monkeypatch.setattr(CoreWatch, "use", lambda watch: use)
    assert tune(Scripted(LATENCIES, 5e-3), database=path).disturbance.core_use == use
    found = read_result(path)
    assert found.core_use == found.disturbance.core_use == use
    assert outcome_of(history(path)).disturbance.core_use == use
    with open_database(path) as database:
        run = database.runs()[0]
        stored = json.loads(run.outcome)
        for damaged in ([2.0], [1.0, 2, -1.0], ["a", 1, 1]):
            outcome = json.dumps(stored | {"core_use": damaged})
            database.update_run(replace(run, outcome=outcome))
            assert outcome_of(history(path)).disturbance.core_use is None
            with pytest.raises(sl.DatabaseError, match="cannot be read"):
                read_result(path)


def _with_seconds(outcome: str, seconds: float) -> str:
    return json.dumps(json.loads(outcome) | {"seconds": seconds})


def test_a_run_that_an_earlier_version_saved_can_be_read(tmp_path: Path) -> None:
    """It kept the records and the reason only."""
    path = tmp_path / "saved.db"
    result = tune(Scripted(LATENCIES, 5e-3))
    result.save(path)
    with open_database(path) as database:
        run = database.runs()[0]
        records = [one.id for one in history(database).records]
        outcome = f'{{"records": {records}, "unscheduled": null, "finished": "8 trials"}}'
        database.update_run(replace(run, outcome=outcome))
    found = read_result(path)
    assert (found.finished, len(found.records), found.interrupted) == ("8 trials", 8, False)
    assert found.best.record.trace_json == result.best.record.trace_json


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_result_can_be_copied_and_sent_to_another_process(copied: Any) -> None:
    result = tune(Scripted(LATENCIES, reference=5e-3))
    assert result.best.schedule.mod is not None, "it is kept once it was asked for"
    again = copied(result)
    assert str(again) == str(result) and again.best.record == result.best.record
    assert again.best.trace == result.best.trace and again.history == result.history
    assert again.best.schedule.mod.script() == result.best.schedule.mod.script()


def test_programs_that_fail_in_the_finals_are_named() -> None:
    near = [1e-3, None, 1.02e-3, 4e-3]
    result = tune(Scripted(near, reference=5e-3, again={-1: 5e-3, 0: None, 1: 2e-3}))
    assert result.rejected == {"crashed": 3}
    assert "failed when timed again: 1 crashed" in str(result)
    [trials] = [tile for tile in tiles(Context(result.history)) if tile.label == "Trials"]
    assert trials.note == "2 failed, 1 more failed in the finals"
    gone = tune(Scripted([1.02e-3, 1e-3], reference=5e-3, again={-1: 5e-3, 0: None, 1: None}))
    assert gone.best.unscheduled
    assert "the other programs that could win failed when they were timed again: 2 cr" in str(gone)
    assert measured(0, None).status == "crashed"


def test_the_time_of_the_best_is_that_of_the_winner() -> None:
    """The finals may choose another program than the fastest of the search, or keep the first."""
    again = {-1: 5e-3, 0: 2e-3, 1: 1e-3}
    result = tune(Scripted([1.05e-3, 1e-3, 4e-3], reference=5e-3, again=again), trials=3)
    assert result.best.record == result.records[0]
    context = Context(result.history)
    assert context.history.rows[0].seconds < context.history.rows[1].seconds
    notes = {tile.label: tile.note for tile in tiles(context)}
    assert notes["Time"].startswith("best found after ")
    context.history.rows[0] = replace(context.history.rows[0], seconds=12.0)
    notes = {tile.label: tile.note for tile in tiles(context)}
    assert notes["Time"] == "best found after 12\N{NO-BREAK SPACE}s"
    kept = tune(Scripted(LATENCIES, reference=1e-5))
    notes = {tile.label: tile.note for tile in tiles(Context(kept.history))}
    assert notes["Time"] == "", "no trial found it"
