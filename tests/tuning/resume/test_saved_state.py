"""What a run keeps of its search in the database, beside its records."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database, merge
from schedlang.language.schedule import Trace
from schedlang.search import CoordinateDescent, Evolutionary, ExploreExploit, Random, TreeSearch
from schedlang.tuning import InterruptedWarning
from tests.tuning.fake_time import FakeTime
from tests.tuning.resume.test_resume import WORKLOAD, Counted, tune


def _told(search: str) -> list[Any]:
    told: list[Any] = json.loads(search)["proposals"]["told"]
    return told


def _state(database: Database, asked_since: int = 0) -> dict[str, Any]:
    """Return the state of the only run, which was saved this many asks ago."""
    [run] = database.runs()
    assert run.id is not None and run.state_asks == len(database.asks(run.id)) - asked_since
    found: dict[str, Any] = json.loads(run.state)
    return found


def test_a_saved_state_does_not_grow_with_what_was_told(
    database: Database, clock: FakeTime
) -> None:
    sizes = []
    for trials in (40, 400):
        tune(database, Counted(clock=clock), trials=trials, batch=40, finals=0)
        state = _state(database)
        assert sorted(_told(state["search"])) == list(range(trials))
        sizes.append(len(json.dumps(state)))
    assert sizes[1] < 3 * sizes[0], "ids and the search's rejections only"


@pytest.mark.parametrize(
    "search", [Random, Evolutionary, CoordinateDescent, TreeSearch, ExploreExploit]
)
def test_a_run_goes_on_from_the_state_and_its_records(
    search: type, database: Database, clock: FakeTime
) -> None:
    expected = tune(None, Counted(clock=clock), search=search)
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(16, clock), search=search)
    assert len(_state(database, asked_since=1)["records"]) == 16
    result = tune(database, Counted(clock=clock), search=search)
    assert len(database.runs()) == 1
    assert result.earlier == 16
    assert [r.trace_json for r in result.records] == [r.trace_json for r in expected.records]


class Another(Evolutionary):
    """A search whose runs are others than those of its class."""

    name = "another"


def test_traces_that_no_record_has_stay_in_the_state(database: Database, clock: FakeTime) -> None:
    """A program that another run has found on another way keeps this run's trace."""
    options: dict[str, Any] = {"transfer": False, "finals": 0}
    expected = tune(None, Counted(clock=clock), search=Another, trials=32, **options)
    tune(database, Counted(clock=clock), search=Evolutionary, trials=16, **options)
    another_way = Trace((), WORKLOAD).to_json()
    records = [r for r in database.query() if r.proposal is not None]
    for record in records[::2]:
        _replace(database, dataclasses.replace(record, trace_json=another_way))
    measurer = Counted(clock=clock)
    tune(database, measurer, search=Another, trials=16, **options)
    assert measurer.count == 0, "all of them were reused"
    state = json.loads(database.runs()[-1].state)
    told = _told(state["search"])
    assert sorted(one for one in told if isinstance(one, int)) == list(range(1, 16, 2))
    assert state["proposals"].count(None) == 8
    result = tune(database, Counted(clock=clock), search=Another, trials=32, **options)
    assert [r.program_key for r in result.records] == [r.program_key for r in expected.records]


def test_a_state_whose_records_tell_of_other_proposals_is_asked_again(
    database: Database, clock: FakeTime
) -> None:
    expected = tune(None, Counted(clock=clock), search=Evolutionary)
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(16, clock), search=Evolutionary)
    [run] = database.runs()
    state = json.loads(run.state)
    state["proposals"][3] = None
    database.update_run(dataclasses.replace(run, state=json.dumps(state)))
    result = tune(database, Counted(clock=clock), search=Evolutionary)
    assert [r.trace_json for r in result.records] == [r.trace_json for r in expected.records]


def test_the_fastest_keep_their_programs_in_another_file(database: Database) -> None:
    expected = tune(None, Counted(), search="evolutionary", batch=4)
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(14), search="evolutionary", batch=4)
    with Database() as other:
        tune(other, Counted(), seed=5, trials=10)  # so that records get other ids
        merge(database, other)
        result = tune(other, Counted(), search="evolutionary", batch=4)
    assert result.earlier == 14
    assert result.best.trace == expected.best.trace
    assert result.best.record.trace_json == result.best.trace.to_json()


@pytest.mark.parametrize("shift", [1, 1000])
def test_a_state_that_names_other_records_as_the_fastest_is_not_used(
    database: Database, shift: int
) -> None:
    """As merging wrote it once: with the ids of the file that it came from."""
    with pytest.warns(InterruptedWarning):
        first = tune(database, Counted(14), search="evolutionary", batch=4)
    [run] = database.runs()
    state = json.loads(run.state)
    ids = state["records"]
    places = {number: place for place, number in enumerate(ids)}
    state["leaders"] = [
        [ids[(places[number] + 1) % len(ids)] if shift == 1 else number + shift, trace]
        for number, trace in state["leaders"]
    ]
    database.update_run(dataclasses.replace(run, state=json.dumps(state)))
    measurer = Counted()
    result = tune(database, measurer, search="evolutionary", batch=4)
    assert result.best.latency <= first.best.latency
    assert result.best.record.program_key == result.best.trace.replay().program_key
    assert measurer.count < 24  # what the run had measured is not measured again


def test_what_a_user_saves_is_whole() -> None:
    """Without a database beside it: all that was told is in it."""
    space = sl.default_space("cpu")
    search = Random(space, WORKLOAD, 0)
    proposals = search.ask(4)
    outcomes = [sl.search.Outcome(p.id, sl.Measurement(p.id, sl.Status.CRASHED)) for p in proposals]
    search.tell(outcomes)
    again = Random(space, WORKLOAD, 0)
    again.load(search.save())
    assert again.proposals.told == search.proposals.told


def _replace(database: Database, record: sl.Record) -> None:
    with database.transaction():
        database._connection.execute(
            "UPDATE record SET trace_json = ? WHERE id = ?", [record.trace_json, record.id]
        )
