"""Candidates that are rejected before they run: told to the search, counted, and no trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import schedlang as sl
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.measurement import rejection_message
from schedlang.search import Outcome, Random
from schedlang.tuning.session import run as tuning_run
from tests.tuning.scripted import Scripted, measured


@sl.module
def tile(sch: sl.Schedule, block: sl.BlockRV) -> None:
    for loop, name in zip(sch.get_loops(block), "ijk", strict=True):
        sch.split(loop, sch.sample_perfect_tile(loop, n=2, name=name))


class Refusing(Scripted):
    """Rejects each third candidate for one reason, and each next for another; all with ``all``."""

    def __init__(self, *, everything: bool = False) -> None:
        super().__init__([1e-3, 2e-3], reference=5e-3)
        self.everything = everything
        self.ran = 0

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate in candidates:
            reason = {0: "threads", 1: "shared memory"}.get(candidate.id % 3)
            if self.everything or reason:
                message = rejection_message(reason or "grid", "too many: bind fewer")
                yield Measurement(candidate.id, Status.REJECTED, message=message)
            else:
                self.ran += 1
                yield measured(candidate.id, 1e-3)


class Listening(Random):
    """Remembers what it is told."""

    def __init__(self, space: sl.Space, workload: sl.Workload) -> None:
        super().__init__(space, workload, seed=0)
        self.heard: list[Status] = []

    def tell(self, outcomes: Sequence[Outcome]) -> None:
        self.heard += [outcome.measurement.status for outcome in outcomes]
        super().tell(outcomes)


@pytest.fixture
def workload() -> sl.Workload:
    return sl.workloads.matmul(64, 64, 64)


def test_they_are_told_counted_and_no_trials(workload: sl.Workload) -> None:
    measurer = Refusing()
    search = Listening(sl.Space([tile]), workload)
    result = sl.tune(workload, trials=8, search=search, measurer=measurer, finals=0, batch=5)
    assert measurer.ran == 8 and result.finished == "8 trials"
    assert search.heard.count(Status.OK) == 8
    assert search.heard.count(Status.REJECTED) == len(result.records) - 8 >= 14
    assert result.rejected["threads"] and result.rejected["shared memory"]
    assert result.rejected.total() - result.rejected["duplicate"] == len(result.records) - 8
    assert str(result).startswith("matmul: 8 measured; rejected: ")
    assert "threads: too many: bind fewer" in str(result) or "shared memory: too" in str(result)
    assert result.best.latency == pytest.approx(1e-3, rel=0.01)


def test_a_search_whose_candidates_are_all_rejected_ends(
    workload: sl.Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning_run, "_MOST_REJECTED", 20)
    measurer = Refusing(everything=True)
    result = sl.tune(workload, trials=8, space=sl.Space([tile]), measurer=measurer, finals=0)
    assert result.finished == "the last 20 candidates were all rejected"
    assert len(result.records) == 20 and measurer.ran == 0
    assert result.best.unscheduled
    assert str(result).startswith("matmul: 0 measured; rejected: ")


def test_a_run_that_goes_on_gets_the_trials_that_are_left(
    workload: sl.Workload, tmp_path: Path
) -> None:
    database = tmp_path / "tune.db"

    def run(trials: int) -> tuple[sl.TuneResult, int]:
        measurer = Refusing()
        found = sl.tune(
            workload,
            trials=trials,
            space=sl.Space([tile]),
            search="random",
            measurer=measurer,
            finals=0,
            database=database,
        )
        return found, measurer.ran

    first, ran = run(4)
    assert ran == 4 and first.rejected["threads"]
    again, ran = run(4)
    assert ran == 0 and dict(again.rejected) == dict(first.rejected)
    longer, ran = run(7)
    assert ran == 3
    assert sum(record.ok for record in longer.records) == 7
    assert longer.rejected["threads"] > first.rejected["threads"]
