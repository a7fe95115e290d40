"""``tune(hosts=)``: what hosts measure, and what the driver stores of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.database import Database
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
@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("search", ["coordinate_descent", "evolutionary", "tree_search"])
def test_one_that_goes_on_alone_keeps_what_the_others_found(search: str, tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    call = {"search": search, "batch": 4, "transfer": False}
    with Database() as database:
        tune(None, database=database, **call)
        [alone] = database.runs()
    with threads(4) as pool:
        first = tune(pool, trials=64, database=path, **call)
    with Database(path) as database:
        # With a measurer of its own kind, it is the run of the call without hosts.
        runs = sorted(database.runs(), key=lambda one: one.id or 0)
        with database.transaction():
            database._connection.execute(
                "UPDATE run SET identity = ? WHERE id = ?", [alone.identity, runs[0].id]
            )
        own = json.loads(runs[0].state)["records"]
    found = tune(None, trials=72, database=path, **call)
    with Database(path) as database:
        assert len(database.runs()) == 4, "it went on"
    assert found.best.latency <= first.best.latency
    assert found.best.record.program_key == found.best.trace.replay().program_key
    fresh = [one for one in found.records if one.id not in own and one.run_id == runs[0].id]
    assert 0 < len(fresh) <= 72 - len(own)
    assert found.earlier == len(found.records) - len(fresh)


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
