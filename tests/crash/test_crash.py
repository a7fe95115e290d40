"""Runs that are killed at any moment go on as if nothing had happened."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from schedlang.database import Database, Record, history
from schedlang.tuning.result import TuneResult
from tests.crash.tuner import Process, tune_here

pytestmark = pytest.mark.slow

KILLS_A_SEARCH = 10
SEARCHES = ("coordinate_descent", "evolutionary", "explore_exploit", "tree_search", "random")


def content(records: list[Record]) -> list[tuple[Any, ...]]:
    """What has to be equal: all but ids, times and the run."""
    return sorted(
        (str(r.proposal), r.trace_json, r.status, r.samples, r.message, r.verified, r.program_key)
        for r in records
    )


def a_call(search: str, seed: int) -> dict[str, Any]:
    return {
        "workload": ("GMM", {"n": 32, "m": 32, "k": 32}),
        "search": search,
        "seed": seed,
        "trials": 48,
        "batch": 8,
    }


def _check_details(
    database: Database, result: TuneResult, expected: TuneResult, killed: int
) -> None:
    """Each kill may have lost the details of one batch, and nothing is there twice."""
    found = history(database)
    assert [record.id for record in found.records] == [record.id for record in result.records]
    assert found.trials.keys() <= {record.id for record in result.records}
    assert len(found.trials) >= len(result.records) - 8 * killed
    assert found.trials == result.history.trials and found.phases == result.history.phases
    assert found.rejections == expected.history.rejections
    assert found.finals == result.history.finals
    ends = [phase.end for phase in found.phases]
    begins = [phase.begin for phase in found.phases]
    assert all(end <= begin for end, begin in zip(ends, begins[1:], strict=False))


@pytest.mark.parametrize("search", SEARCHES)
def test_killed_runs_lose_nothing_and_end_like_others(search: str, tmp_path: Path) -> None:
    rng = random.Random(f"kills of {search}")
    kills, runs = 0, 0
    while kills < KILLS_A_SEARCH:
        call = a_call(search, seed=runs)
        path = tmp_path / f"{runs}.db"
        acknowledged: set[int] = set()
        killed = 0
        while kills < KILLS_A_SEARCH:
            run = Process(path, call, seconds=0.004)
            run.process.join(rng.uniform(0.0, 0.6))
            ended = run.process.exitcode is not None
            run.process.kill()
            acknowledged |= run.acknowledged()
            if ended:
                assert run.process.exitcode == 0
                break
            kills += 1
            killed += 1
            if path.exists():
                with Database(path) as database:
                    assert acknowledged <= {record.id for record in database.query()}
        runs += 1
        uninterrupted = Database()
        expected = tune_here(uninterrupted, call)
        with Database(path) as database:
            result = tune_here(database, call)
            assert acknowledged <= {record.id for record in database.query()}
            assert content(database.query()) == content(uninterrupted.query())
            assert [r.trace_json for r in result.records] == [
                r.trace_json for r in expected.records
            ]
            assert result.best.trace == expected.best.trace
            assert result.best.latency == expected.best.latency
            assert tune_here(database, call).earlier == len(expected.records)
            _check_details(database, result, expected, killed)
