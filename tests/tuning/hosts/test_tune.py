"""``tune(hosts=)``: what hosts measure, and what the driver stores of it."""

from __future__ import annotations

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


@pytest.mark.parametrize("search", ["evolutionary", "coordinate_descent"])
def test_one_search_measures_on_all_hosts(search: str) -> None:
    with threads(4) as pool, Database() as database:
        found = tune(pool, search=search, trials=48, database=database)
        [run] = database.runs()
        records = database.query(found.workload.key)
        trials = database.details(run.id or 0).trials
    measured = [one.program_key for one in records if not one.unscheduled]
    assert len(measured) == len(set(measured)) == 48, "no program is measured twice"
    assert all(one.provenance["host"] for one in records if not one.unscheduled)
    assert len(trials) == 48 and all(one.worker >= 1000 and one.phases for one in trials)
    assert found.best.latency == min(one.latency for one in found.records if one.ok)


def test_the_same_call_returns_at_once(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    with threads() as pool:
        first = tune(pool, database=path)
        again = tune(pool, database=path)
    assert [one.id for one in again.records] == [one.id for one in first.records]
    assert again.best.trace == first.best.trace
    assert again.earlier == 24
