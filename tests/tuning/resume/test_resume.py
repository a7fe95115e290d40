"""The same call of ``tune`` with the same database goes on with its run."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tvm import te

import schedlang as sl
from schedlang.database import Database
from schedlang.database.file import is_alive, this_process
from schedlang.errors import DatabaseError, SchedlangError
from schedlang.measurement import Candidate, Measurement
from schedlang.search import CoordinateDescent, Evolutionary, Random, Strategy
from schedlang.tuning import InterruptedWarning
from schedlang.tuning.session.ending import Ending
from tests.crash.tuner import Replayed
from tests.tuning.fake_time import FakeTime

pytestmark = pytest.mark.slow

WORKLOAD = sl.workloads.get("GMM", n=32, m=32, k=32)
SECONDS = 0.05


class Counted(Replayed):
    """Counts its measurements, and stops as a user's Ctrl-C does after ``stop_after`` of them.

    Each takes ``SECONDS`` of a clock.
    """

    def __init__(self, stop_after: int | None = None, clock: FakeTime | None = None) -> None:
        super().__init__()
        self.count = 0
        self.finals = 0
        self._stop_after = stop_after
        self._clock = clock or FakeTime()

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for measurement in super().measure(candidates):
            if self.count == self._stop_after:
                raise KeyboardInterrupt
            self.count += 1
            self._clock.sleep(SECONDS)
            yield measurement

    def remeasure(self, *args: Any, **options: Any) -> list[Measurement]:
        self.finals += 1
        return super().remeasure(*args, **options)


def tune(database: Any, measurer: Counted, **options: Any) -> sl.TuneResult:
    call: dict[str, Any] = {"trials": 24, "search": "random", "batch": 8, "progress": False}
    return sl.tune(WORKLOAD, database=database, measurer=measurer, **call | options)


def test_a_finished_run_is_returned_without_measuring(database: Database) -> None:
    first = tune(database, Counted())
    measurer = Counted()
    again = tune(database, measurer)
    assert (measurer.count, measurer.finals) == (0, 0)
    assert again.records == first.records
    assert again.earlier == 24
    assert again.best.trace == first.best.trace
    assert again.best.finals == first.best.finals
    assert again.best.runner_up == first.best.runner_up
    assert (again.rejected, again.culprits) == (first.rejected, first.culprits)
    assert again.reference_latency == first.reference_latency
    assert "24 measured (24 of them before)" in str(again)
    assert str(again).splitlines()[-1] == str(first).splitlines()[-1]


def test_remeasure_begins_again(database: Database) -> None:
    first = tune(database, Counted())
    measurer = Counted()
    again = tune(database, measurer, remeasure=True)
    assert measurer.count == 24
    assert again.earlier == 0
    assert [r.trace_json for r in again.records] == [r.trace_json for r in first.records]
    assert database.count() == 2 * (24 + 1), "the unscheduled program comes on top"
    # The newest run is the one that is returned from then on.
    measurer = Counted()
    assert tune(database, measurer).records == again.records
    assert measurer.count == 0


@pytest.mark.parametrize("stopped", [0, 3, 8, 20, 24])
def test_an_interrupted_run_goes_on(database: Database, stopped: int) -> None:
    expected = tune(None, Counted())
    stop = pytest.warns(InterruptedWarning) if stopped else pytest.raises(KeyboardInterrupt)
    with stop:
        tune(database, Counted(stopped), trials=25)
    measurer = Counted()
    result = tune(database, measurer)
    assert measurer.count == 24 - stopped
    assert result.earlier == stopped
    assert [r.trace_json for r in result.records] == [r.trace_json for r in expected.records]
    assert result.best.trace == expected.best.trace


def test_the_bar_of_a_run_that_goes_on_starts_where_it_was(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(20))
    capsys.readouterr()
    tune(database, Counted(), progress=True)
    shown = re.findall(r"(\d+)/24", capsys.readouterr().err)
    assert shown and int(shown[-1]) == 24


def test_more_trials_continue_and_fewer_do_not_measure(database: Database) -> None:
    tune(database, Counted())
    measurer = Counted()
    more = tune(database, measurer, trials=32)
    assert (measurer.count, more.earlier, len(more.records)) == (8, 24, 32)
    measurer = Counted()
    assert len(tune(database, measurer, trials=8).records) == 32
    assert measurer.count == 0


def test_fewer_trials_than_an_interrupted_run_has_are_not_said_to_be_all(
    database: Database,
) -> None:
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(20))
    measurer = Counted()
    found = tune(database, measurer, trials=8)
    assert len(found.records) == 16 and measurer.count == 0, "two batches were whole"
    assert found.finished == "16 trials; 8 were asked for"


def test_wall_clock_budgets_count_earlier_calls(database: Database, clock: FakeTime) -> None:
    first = tune(database, Counted(clock=clock), trials=None, seconds=1.5, finals=0)
    assert first.finished == "1.5 s are over"
    again = tune(database, Counted(clock=clock), trials=None, seconds=1.5, finals=0)
    assert again.earlier == len(again.records) == len(first.records)
    more = tune(database, Counted(clock=clock), trials=None, seconds=2.5, finals=0)
    assert more.earlier == len(first.records) < len(more.records)
    assert more.seconds == pytest.approx(1.0, abs=8 * SECONDS)


@pytest.mark.parametrize(
    "other",
    [
        {"seed": 1},
        {"search": "grid"},
        {"space": sl.default_space("cpu").without("parallel_vectorize_unroll")},
        {"target": sl.Target("cpu", cores=1)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_another_call_is_another_run(database: Database, other: dict[str, Any]) -> None:
    tune(database, Counted(), trials=8)
    result = tune(database, Counted(), trials=8, **other)
    runs = {record.run_id for record in database.query()}
    assert {record.run_id for record in result.records} - runs == set()
    assert len(runs) == 2


def test_a_program_is_not_measured_twice(database: Database) -> None:
    tune(database, Counted(), trials=24)
    measurer = Counted()
    result = tune(database, measurer, search=CoordinateDescent, trials=24)
    assert measurer.count + result.earlier == 24
    assert result.earlier > 0, "it starts at the fastest that are known"
    programs = [record.program_key for record in database.query()]
    assert len(programs) == len(set(programs))


def test_without_transfer_the_search_starts_from_nothing(database: Database) -> None:
    tune(database, Counted(), trials=24)
    alone = tune(None, Counted(), search=CoordinateDescent)
    result = tune(database, Counted(), search=CoordinateDescent, transfer=False)
    # Of a batch, what was known comes first.
    assert {r.program_key for r in result.records} == {r.program_key for r in alone.records}


class Forgetful(Random):
    """A search that saves nothing."""

    name = "forgetful"

    def save(self) -> str:
        return Strategy.save(self)

    def load(self, state: str) -> None:
        raise AssertionError("there is nothing to load")


def test_a_search_that_saves_nothing_is_asked_again(database: Database) -> None:
    expected = tune(None, Counted(), search=Forgetful)
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(13), search=Forgetful)
    result = tune(database, Counted(), search=Forgetful)
    assert result.earlier == 13
    assert [r.trace_json for r in result.records] == [r.trace_json for r in expected.records]


class Fickle(Random):
    """A search that proposes something else in every process, as changed code would."""

    name = "fickle"
    calls = 0

    def __init__(self, space: sl.Space, workload: sl.Workload, seed: int) -> None:
        Fickle.calls += 1
        super().__init__(space, workload, Fickle.calls)

    def save(self) -> str:
        return Strategy.save(self)


def test_a_search_that_has_changed_begins_again_and_loses_nothing(database: Database) -> None:
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(13), search=Fickle)
    result = tune(database, Counted(), search=Fickle)
    assert len(result.records) == 24
    assert database.count() >= 13 + 24 - result.earlier
    assert len({record.run_id for record in database.query()}) == 2


def test_a_strategy_that_cannot_go_on_says_what_to_give(database: Database) -> None:
    space = sl.default_space("cpu")
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(13), space=space, search=Fickle(space, WORKLOAD, 0))
    with pytest.raises(SchedlangError, match="give tune its class or a function that makes it"):
        tune(database, Counted(), space=space, search=Fickle(space, WORKLOAD, 0))


def test_a_state_that_could_not_be_read_back_is_not_stored(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedlang.tuning.session.journal.LONGEST_STATE", 100)
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(20), search=Evolutionary)
    assert [run.state for run in database.runs()] == [""]
    expected = tune(None, Counted(), search=Evolutionary)
    result = tune(database, Counted(), search=Evolutionary)
    assert [r.trace_json for r in result.records] == [r.trace_json for r in expected.records]


def test_a_damaged_state_is_asked_again(database: Database) -> None:
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(20), search=Evolutionary)
    for run in database.runs():
        assert run.state, "nothing was saved"
        database.update_run(dataclasses.replace(run, state=run.state[:-40] + "}"))
    expected = tune(None, Counted(), search=Evolutionary)
    result = tune(database, Counted(), search=Evolutionary)
    assert [r.trace_json for r in result.records] == [r.trace_json for r in expected.records]
    # What repeating the earlier part took is no part of this call's search.
    assert min(result.time_split.values()) >= 0


def test_records_that_are_gone_are_measured_again(database: Database) -> None:
    first = tune(database, Counted())
    database.delete([first.records[3].id or 0])
    with pytest.raises(DatabaseError, match="lacks 1 records of this run; tune with remeasure"):
        tune(database, Counted())


def test_two_processes_do_not_work_at_one_run(tmp_path: Path) -> None:
    code = "from schedlang.database.file import this_process"
    code += "; print(this_process(), flush=True)"
    code += "; input()"
    other = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdout is not None
    owner = other.stdout.readline().strip()
    with Database(tmp_path / "tune.db") as database:
        with pytest.warns(InterruptedWarning):
            tune(database, Counted(3))
        (record, *_) = database.query()
        assert database.claim_run(record.run_id or 0, "", owner)
        with pytest.raises(DatabaseError, match=rf"process {other.pid} already executes this run"):
            tune(database, Counted())
        other.communicate("\n")
        assert not is_alive(owner)
        assert tune(database, Counted()).earlier == 3
    assert is_alive(this_process())
    assert not is_alive("")


def test_failures_are_kept_and_not_tried_again(database: Database) -> None:
    tune(database, Counted(), trials=24)
    failed = {r.program_key for r in database.query() if not r.ok}
    assert failed
    tune(database, Counted(), search=Random, trials=24)  # the same draws under another name
    assert len([r for r in database.query() if r.program_key in failed]) == len(failed)


def test_records_say_what_they_were_measured_with(database: Database) -> None:
    record = tune(database, Counted(), trials=1).records[0]
    assert {"tvm", "llvm", "ffi", "python", "schedlang", "cpu", "cpu_features", "system"} <= set(
        record.provenance
    )
    assert all(record.provenance.values())
    assert len(record.program_key) == 16
    assert (record.proposal, record.search, record.seed) == (0, "random", 0)


@pytest.mark.parametrize("search", ["coordinate_descent", "evolutionary", "explore_exploit"])
def test_a_run_that_started_warm_goes_on_as_it_would_have(search: str, tmp_path: Path) -> None:
    """Also without its state, and with faster records of its own by then."""
    results = []
    for stop in (None, 14):
        with Database(tmp_path / f"{stop}.db") as database:
            tune(database, Counted(), trials=20, seed=7)
            if stop is not None:
                with pytest.warns(InterruptedWarning):
                    tune(database, Counted(stop), search=search)
                (run,) = [one for one in database.runs() if one.search == search]
                database.update_run(dataclasses.replace(run, state="", state_asks=0))
            results.append(tune(database, Counted(), search=search))
            assert len({record.run_id for record in database.query()}) == 2
    # Of a batch, what was known comes first.
    one, other = (sorted(r.program_key for r in result.records) for result in results)
    assert one == other
    assert results[0].best.trace == results[1].best.trace


def test_trials_count_where_seconds_were_given_too(database: Database, clock: FakeTime) -> None:
    tune(database, Counted(clock=clock), trials=8, seconds=100)
    assert len(tune(database, Counted(clock=clock), trials=16, seconds=100).records) == 16
    used = Ending.from_json(max(database.runs(), key=lambda run: run.id or 0).outcome).seconds
    more = tune(database, Counted(clock=clock), trials=None, seconds=used + 1.5)
    assert len(more.records) > 16


def test_other_names_of_blocks_are_another_run_with_the_same_measurements(
    database: Database,
) -> None:
    def named(name: str) -> sl.Workload:
        a = te.placeholder((32, 32), "float32", "a")
        k = te.reduce_axis((0, 32), "k")
        return sl.workloads.from_te(
            [a, te.compute((32, 32), lambda i, j: te.sum(a[i, k] * a[k, j], axis=k), name=name)]
        )

    for name in ("first", "second"):
        for _ in range(2):
            result = sl.tune(
                *(named(name),), trials=12, search="random", database=database, measurer=Counted()
            )
            assert result.best.schedule.mod is not None
            assert f"name='{name}'" in str(result.best.trace) or name in str(result.best.trace)
    assert database.count() == 12 + 1, "the unscheduled program comes on top"


def test_strategies_that_differ_are_different_runs(database: Database) -> None:
    space = sl.default_space("cpu")
    results = [
        tune(database, Counted(), space=space, search=Random(space, WORKLOAD, seed)).records
        for seed in (1, 2, 1)
    ]
    assert [r.trace_json for r in results[0]] != [r.trace_json for r in results[1]]
    assert [r.id for r in results[0]] == [r.id for r in results[2]]


class OtherMachine(Counted):
    key = "another machine"


def test_another_measurer_is_another_run(database: Database) -> None:
    tune(database, Counted(), trials=8)
    tune(database, OtherMachine(), trials=8)
    assert len({run.identity for run in database.runs()}) == 2


def test_finals_that_were_left_out_are_held(database: Database) -> None:
    assert tune(database, Counted(), finals=0).best.finals is None
    measurer = Counted()
    result = tune(database, measurer)
    assert (measurer.count, measurer.finals) == (0, 1)
    assert result.best.finals is not None
    measurer = Counted()
    assert tune(database, measurer, trials=None, seconds=0.001).best.finals == result.best.finals
    assert measurer.finals == 0


def test_no_more_trials_than_wanted_after_an_interruption(database: Database) -> None:
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(3), trials=16, batch=16)
    measurer = Counted()
    assert len(tune(database, measurer, trials=5, batch=16).records) == 5
    assert measurer.count == 2
    measurer = Counted()
    assert len(tune(database, measurer, trials=16, batch=16).records) == 16
    assert measurer.count == 11


def test_verify_all_takes_no_record_that_was_not_compared() -> None:
    with Database() as database:
        tuned = sl.tune(
            WORKLOAD, trials=8, search="random", database=database, finals=0, verify=False
        )
        again = sl.tune(
            WORKLOAD, trials=8, search="random", database=database, finals=0, verify="all"
        )
        assert not any(record.verified for record in tuned.records)
        assert all(record.verified for record in again.records if record.ok)


def test_a_used_strategy_is_not_mixed_with_its_run(database: Database) -> None:
    space = sl.default_space("cpu")
    strategy = Random(space, WORKLOAD, 0)
    with pytest.warns(InterruptedWarning):
        tune(database, Counted(3), space=space, search=strategy)
    with pytest.raises(ValueError, match="a run has used this 'random' already"):
        tune(database, Counted(), space=space, search=strategy)
    result = tune(database, Counted(), space=space, search=Random(space, WORKLOAD, 0))
    assert (len(result.records), result.earlier) == (24, 3)
