"""Two processes tune the same workload into one database: each program is measured by one.

The other process is a run in the database whose owner is alive; what it does happens while this one
sleeps or measures, so that no test depends on time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import Database, Record, Run
from schedlang.database.file import this_process
from schedlang.measurement import Candidate, Measurement
from schedlang.tuning import InterruptedWarning
from schedlang.tuning.session import recorder as sharing
from schedlang.tvm.program import structural_key
from tests.crash.tuner import Replayed
from tests.tuning.fake_time import FakeTime

WORKLOAD = sl.workloads.get("GMM", n=32, m=32, k=32)
DEAD = "999999999:1"


class Listed(Replayed):
    """Keeps the programs that it measured; ``then`` is called after each of them."""

    def __init__(self, then: Callable[[], object] = lambda: None) -> None:
        super().__init__()
        self.programs: list[str] = []
        self._then = then

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate, measurement in zip(candidates, super().measure(candidates), strict=True):
            self.programs.append(structural_key(candidate.module))
            self._then()
            yield measurement


class Stopped(Listed):
    """The user presses Ctrl-C after some measurements."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self._after = after

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for measurement in super().measure(candidates):
            if len(self.programs) > self._after:
                raise KeyboardInterrupt
            yield measurement


def tune(database: Any, measurer: Listed, **options: Any) -> sl.TuneResult:
    call: dict[str, Any] = {"trials": 16, "search": "random", "batch": 8} | options
    return sl.tune(WORKLOAD, database=database, measurer=measurer, progress=False, **call)


@pytest.fixture(scope="module")
def alone() -> list[Record]:
    """The records of the run when no other one is there."""
    with Database() as database:
        tune(database, Listed(), transfer=False)
        return [record for record in database.query() if not record.unscheduled]


@pytest.fixture(params=["memory", "file"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    made = Database() if request.param == "memory" else Database(tmp_path / "tune.db")
    with made as opened:
        yield opened


class Other:
    """Another process, which has claimed some of the programs that the run will propose."""

    def __init__(self, database: Database, records: list[Record], owner: str) -> None:
        self._database = database
        self.records = records
        first = records[0]
        place = (first.workload_key, first.target_key, first.toolchain_key)
        self.run = database.add_run(Run("other", *place, "random", 9, 0.0, owner=owner))
        assert self.run.id is not None
        taken = database.claim_programs(self.run.id, [one.program_key for one in records])
        assert not taken

    def store(self) -> None:
        """Store the next of its records."""
        if self.records:
            record = self.records.pop(0)
            self._database.append([dataclasses.replace(record, run_id=self.run.id)])

    def end(self) -> None:
        assert self.run.id is not None
        self._database.claim_run(self.run.id, self.run.owner, "")


def keys(records: Sequence[Record]) -> list[str]:
    return [record.program_key for record in records]


def sleeping(monkeypatch: pytest.MonkeyPatch, clock: FakeTime, act: Callable[[], object]) -> None:
    """Have the other process act whenever this one sleeps."""

    def sleep(seconds: float) -> None:
        clock.now += seconds
        act()

    monkeypatch.setattr(clock, "sleep", sleep)


def test_what_the_other_measures_is_taken_from_it(
    database: Database,
    alone: list[Record],
    clock: FakeTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = Other(database, [alone[1], alone[6], alone[9]], this_process())
    own = [one for one in keys(alone) if one not in keys(other.records)]
    sleeping(monkeypatch, clock, other.store)
    measurer = Listed()
    result = tune(database, measurer, transfer=False)
    assert measurer.programs == own
    assert sorted(keys(result.records)) == sorted(keys(alone))
    assert result.earlier == 3
    # What was claimed is measured before anything is waited for.
    assert keys(result.records)[:8] == [*own[:6], alone[1].program_key, alone[6].program_key]
    programs = keys([one for one in database.query() if not one.unscheduled])
    assert len(programs) == len(set(programs)) == 16


def test_a_record_that_comes_while_others_are_measured_is_taken_without_waiting(
    database: Database, alone: list[Record], clock: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Other(database, [alone[1], alone[6]], this_process())
    sleeping(monkeypatch, clock, lambda: pytest.fail("it waited"))
    measurer = Listed(then=other.store)
    tune(database, measurer, transfer=False, trials=8)
    assert measurer.programs == [keys(alone)[k] for k in (0, 2, 3, 4, 5, 7)]


def test_a_record_that_comes_before_the_claim_is_taken(
    database: Database,
    alone: list[Record],
    clock: FakeTime,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other process stores it after this one has looked for it."""
    other = Other(database, alone[:3], this_process())
    claim_programs = database.claim_programs

    def late(run_id: int, program_keys: Iterable[str]) -> frozenset[str]:
        for _ in range(3):
            other.store()
        return claim_programs(run_id, program_keys)

    monkeypatch.setattr(database, "claim_programs", late)
    measurer = Listed()
    tune(database, measurer, transfer=False, trials=8)
    assert measurer.programs == keys(alone)[3:8]


@pytest.mark.parametrize("owner", [DEAD, ""])
def test_a_dead_process_is_not_waited_for(
    database: Database,
    alone: list[Record],
    clock: FakeTime,
    monkeypatch: pytest.MonkeyPatch,
    owner: str,
) -> None:
    Other(database, alone[:5], owner)
    sleeping(monkeypatch, clock, lambda: pytest.fail("it waited"))
    measurer = Listed()
    tune(database, measurer, transfer=False)
    assert measurer.programs == keys(alone)


def test_what_the_other_leaves_is_measured_here(
    database: Database, alone: list[Record], clock: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Other(database, alone[:5], this_process())
    sleeping(monkeypatch, clock, other.end)
    measurer = Listed()
    tune(database, measurer, transfer=False, trials=8)
    assert measurer.programs == keys(alone)[5:8] + keys(alone)[:5]
    assert clock.now < 1000 + sharing.PATIENCE


def test_a_process_that_hangs_is_not_waited_for_for_ever(
    database: Database, alone: list[Record], clock: FakeTime
) -> None:
    Other(database, [*alone[:5], alone[12]], this_process())
    measurer = Listed()
    tune(database, measurer, transfer=False)
    assert sorted(measurer.programs) == sorted(keys(alone))
    assert 2 * sharing.PATIENCE <= clock.now - 1000 < 2.1 * sharing.PATIENCE


def test_waiting_ends_at_the_deadline(
    database: Database, alone: list[Record], clock: FakeTime
) -> None:
    Other(database, alone[2:8], this_process())
    result = tune(database, Listed(), transfer=False, trials=None, seconds=5.0, finals=0)
    assert result.finished == "5 s are over"
    assert keys(result.records) == keys(alone)[:2]
    assert 1005 <= clock.now < 1006


def test_remeasure_takes_nothing_from_others_and_waits_for_nobody(
    database: Database, alone: list[Record], clock: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    Other(database, alone[:5], this_process())
    sleeping(monkeypatch, clock, lambda: pytest.fail("it waited"))
    measurer = Listed()
    tune(database, measurer, transfer=False, remeasure=True)
    assert measurer.programs == keys(alone)


def test_an_interrupted_run_goes_on_with_what_it_took(
    database: Database, alone: list[Record], clock: FakeTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Other(database, [alone[1], alone[6]], this_process())
    sleeping(monkeypatch, clock, other.store)
    with pytest.warns(InterruptedWarning):
        tune(database, Stopped(after=9), transfer=False)
    measurer = Listed()
    result = tune(database, measurer, transfer=False)
    assert measurer.programs == keys(alone)[11:]
    assert [one.trace_json for one in result.records[8:]] == [one.trace_json for one in alone[8:]]
    assert result.earlier == 11


def test_a_run_that_is_interrupted_leaves_no_claims(
    database: Database, alone: list[Record], clock: FakeTime
) -> None:
    with pytest.warns(InterruptedWarning):
        tune(database, Stopped(after=3), transfer=False)
    Other(database, alone, this_process())


def test_a_result_says_which_run_measured_the_best_program() -> None:
    with Database() as database:
        first = tune(database, Listed(), transfer=False)
        again = tune(database, Listed(), transfer=False, trials=17)
        assert "measured by run" not in str(first) + str(again)
        # Another seed proposes the same programs, which are not measured again.
        other = tune(database, Listed(), transfer=False, seed=1)
        run = other.best.record.run_id
        assert run is not None
        assert (f"measured by run #{run}" in str(other)) == (run != other.history.run.id)
        other = tune(database, Listed(), seed=2, search="evolutionary")
        assert other.history.run.known > 0
        assert f"measured by run #{other.best.record.run_id}" in str(other)
