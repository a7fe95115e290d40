"""``tune(hosts=)``: what hosts measure, and what the driver stores of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.database import Database, merge
from tests.tuning.hosts.replaying import WORKLOAD, threads, tune

SEARCHES = (
    "coordinate_descent",
    "evolutionary",
    "explore_exploit",
    "grid",
    "random",
    "tree_search",
)


@pytest.mark.parametrize("search", SEARCHES)
def test_one_host_does_what_this_process_does(search: str) -> None:
    expected = tune(None, search=search, batch=4)
    with threads() as pool:
        found = tune(pool, search=search, batch=4)
    assert [one.trace_json for one in found.records] == [one.trace_json for one in expected.records]
    assert found.best.trace == expected.best.trace
    assert found.reference_latency == expected.reference_latency
    assert found.rejected == expected.rejected


# How ``explore_exploit`` searches depends on the number of trials.
@pytest.mark.parametrize("search", sorted({*SEARCHES} - {"explore_exploit"}))
def test_an_ended_run_goes_on(search: str, tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    expected = tune(None, search=search, trials=40, batch=4)
    with threads() as pool:
        first = tune(pool, search=search, trials=12, batch=4, database=path)
        found = tune(pool, search=search, trials=40, batch=4, database=path)
    assert found.earlier == 12
    assert [one.id for one in found.records[:12]] == [one.id for one in first.records]
    assert len({one.program_key for one in found.records}) == 40
    assert found.best.latency <= 1.5 * expected.best.latency
    with Database(path) as database:
        assert len(database.runs()) == 1
        assert database.count() == 41, "the unscheduled program comes on top"


@pytest.mark.slow
def test_a_run_goes_on_with_hosts_and_without(tmp_path: Path) -> None:
    """With the target's own measurer, on the host and here."""
    call = {"search": "evolutionary", "batch": 4, "database": tmp_path / "tune.db"}
    with threads() as pool:
        sl.tune(WORKLOAD, trials=6, hosts=pool, **call)
        sl.tune(WORKLOAD, trials=12, **call)
        found = sl.tune(WORKLOAD, trials=18, hosts=pool, **call)
    assert found.earlier == 12
    assert len({one.program_key for one in found.records}) == 18
    assert found.best.record.verified
    with Database(tmp_path / "tune.db") as database:
        assert len(database.runs()) == 1


@pytest.mark.parametrize("search", ["evolutionary", "coordinate_descent", "explore_exploit"])
def test_islands_share_what_they_measure(search: str) -> None:
    with threads(4) as pool, Database() as database:
        found = tune(pool, search=search, trials=96, database=database)
        runs = database.runs()
        records = database.query(found.workload.key)
    assert len(runs) == 4 and len({run.seed for run in runs}) == 4
    measured = [one.program_key for one in records if not one.unscheduled]
    assert 96 <= len(measured) < 96 + 4 * 16
    # Many programs of this space are equal, and each run has had six slices only.
    assert len(measured) - len(set(measured)) <= 0.1 * len(measured)
    assert len(found.records) == len(measured)
    assert found.best.latency == min(one.latency for one in found.records if one.ok)


def test_searches_learn_from_each_other(tmp_path: Path) -> None:
    """And what they have learned travels with their state, into another file too."""
    path, other = tmp_path / "tune.db", tmp_path / "other.db"
    with threads(4) as pool:
        tune(pool, search="coordinate_descent", trials=64, database=path)
    with Database(other) as there, Database(path) as here:
        tune(None, database=there)  # so that records get other ids
        merge(here, there)
    for file in (path, other):
        with Database(file) as database:
            runs = [one for one in database.runs() if one.search == "coordinate_descent"]
            assert len(runs) == 4
            for run in runs:
                observed = json.loads(run.state)["observed"]
                records = database.get({number for number, _ in observed})
                assert len(records) == len(observed) > 16
                assert run.id not in {record.run_id for record in records}
                own = {record.proposal for record in database.query(run_id=run.id)}
                assert not own & {proposal for _, proposal in observed}


@pytest.mark.parametrize("search", ["coordinate_descent", "evolutionary", "tree_search"])
def test_one_that_goes_on_alone_keeps_what_the_others_found(search: str, tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with threads(4) as pool:
        first = tune(pool, search=search, trials=64, batch=4, database=path)
    found = tune(None, search=search, trials=72, batch=4, database=path)
    with Database(path) as database:
        own = json.loads(database.runs()[0].state)["records"]
    assert len(own) < 64, "the others measured the rest"
    assert found.best.latency <= first.best.latency
    assert found.best.record.program_key == found.best.trace.replay().program_key


def test_what_a_run_measured_before_it_began_again_is_not_observed(tmp_path: Path) -> None:
    """It proposes that again, and the records count as its own."""
    path = tmp_path / "tune.db"
    with threads(1) as pool:
        first = tune(pool, search="evolutionary", trials=24, batch=4, database=path)
    with Database(path) as database:
        [run] = database.runs()
        # The search now proposes other programs than the journal has.
        with database.transaction():
            database._connection.execute("DELETE FROM ask WHERE run_id = ?", [run.id])
        database.update_run(replace(run, state="", state_asks=0))
    with threads(1) as pool:
        again = tune(pool, search="evolutionary", trials=32, batch=4, database=path)
    assert again.best.latency <= first.best.latency
    assert again.best.latency == min(one.latency for one in again.records if one.ok)


def test_the_history_of_runs_beside_each_other_is_one(tmp_path: Path) -> None:
    """That of the newest run is the one that has the result, with the time line of all hosts."""
    path = tmp_path / "tune.db"
    with threads(3) as pool:
        found = tune(pool, trials=48, database=path)
        again = tune(pool, trials=48, database=path)
    stored = sl.database.history(path)
    for one in (found.history, again.history, stored):
        assert sorted(one.trials) == sorted(record.id or 0 for record in found.records)
        assert all(trial.phases for trial in one.trials.values())
    with Database(path) as database:
        assert len(database.runs()) == 3
        assert stored.run.id == database.runs()[0].id


def test_the_same_call_returns_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with threads() as pool:
        first = tune(pool, database=path)
        again = tune(pool, database=path)
    assert [one.id for one in again.records] == [one.id for one in first.records]
    assert again.best.trace == first.best.trace
    assert again.earlier == 24
