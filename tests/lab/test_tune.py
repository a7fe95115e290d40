"""``tune`` on a recorded space: the same each time, on its clock, and apart from real records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import open_database
from schedlang.lab import RecordedSpace
from schedlang.measurement import Candidate, SimulatedMeasurer
from schedlang.measurement.clock import Clock
from schedlang.search import SEARCHES
from tests.lab.made_up_space import made_up
from tests.spaces.partial_spaces import SPACES, WORKLOAD, by_value, two_tiles


@pytest.fixture(scope="module")
def recorded() -> RecordedSpace:
    part = sl.Space([two_tiles, by_value]).restricted(WORKLOAD, 60, seed=1)
    return made_up(part, WORKLOAD, [sl.Status.WRONG_RESULT, sl.Status.CRASHED])


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """No real time passes."""
    monkeypatch.setattr(Clock, "now", lambda self: 0.0)


def tuned(recorded: RecordedSpace, measurer: Any = None, **given: Any) -> sl.TuneResult:
    options: dict[str, Any] = {"search": "random", "trials": 20, "progress": False}
    measurer = measurer or SimulatedMeasurer(recorded)
    return sl.tune(WORKLOAD, space=recorded.space, measurer=measurer, **options | given)


def found(result: sl.TuneResult) -> list[Any]:
    return [(one.program_key, one.status, one.samples) for one in result.records]


@pytest.mark.parametrize("search", SEARCHES)
def test_equal_seeds_find_the_same(recorded: RecordedSpace, search: str) -> None:
    one, same = (tuned(recorded, search=search, trials=14) for _ in range(2))
    assert found(one) == found(same) and len(one.records) == 14
    assert one.best.latency == same.best.latency
    assert one.best.trace.replay().mod is not None


@pytest.mark.usefixtures("frozen")
def test_its_seconds_are_simulated(recorded: RecordedSpace) -> None:
    result = tuned(recorded, trials=None, seconds=8.0, finals=0)
    assert result.seconds == pytest.approx(8.0) and result.finished == "8 s are over"
    assert 20 < len(result.records) < 36, "a trial takes a quarter of a second"
    assert tuned(recorded, trials=None, seconds=8.0).seconds <= 8.0
    split = result.time_split
    assert min(split.values()) >= 0 and sum(split.values()) == pytest.approx(result.seconds)
    limited = tuned(recorded, trials=40, stop_when=sl.stop.no_gain(seconds=2.0))
    assert "no gain in the last 2 s" in limited.finished and limited.seconds > 2.0


def test_a_search_ends_with_the_space(recorded: RecordedSpace) -> None:
    result = tuned(recorded, search="grid", trials=1000)
    assert len(result.records) == len(recorded.programs)
    assert result.rejected["wrong_result"] == result.rejected["crashed"] == 1
    assert result.best.record.verified and result.best.finals is not None
    winner = recorded.program(result.best.record.program_key)
    assert winner.latency < 1.1 * recorded.optimum
    assert result.best.schedule.mod.script()
    assert str(sl.explain(result))


def test_another_space_ends_the_run(recorded: RecordedSpace) -> None:
    with pytest.raises(sl.RecordingError, match="the search left it, or it was given another"):
        sl.tune(
            WORKLOAD,
            space=SPACES["own"],
            trials=2,
            measurer=SimulatedMeasurer(recorded),
            progress=False,
        )


class Interrupted(Exception):
    pass


class Interrupting(SimulatedMeasurer):
    """Fails after some measurements."""

    left = 10**6

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[sl.Measurement]:
        for measurement in super().measure(candidates):
            if not self.left:
                raise Interrupted
            self.left -= 1
            yield measurement


@pytest.mark.parametrize("search", SEARCHES)
def test_an_interrupted_run_goes_on(recorded: RecordedSpace, tmp_path: Path, search: str) -> None:
    given: dict[str, Any] = {"search": search, "trials": 24, "batch": 6}
    whole = tuned(recorded, Interrupting(recorded), **given)
    breaking = Interrupting(recorded)
    breaking.left = 15
    with pytest.raises(Interrupted):
        tuned(recorded, breaking, database=tmp_path / "r.db", **given)
    rest = tuned(recorded, Interrupting(recorded), database=tmp_path / "r.db", **given)
    assert found(rest) == found(whole) and rest.earlier == 15


class Real(sl.Measurer):
    """Stands for a machine: all programs take a second."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[sl.Measurement]:
        for one in candidates:
            yield sl.Measurement(one.id, sl.Status.OK, (1.0,), verified=True)


def test_simulated_records_are_taken_for_no_measurements(
    recorded: RecordedSpace, tmp_path: Path
) -> None:
    path = tmp_path / "both.db"
    simulated = tuned(recorded, database=path, search="grid", trials=1000)
    assert sl.best(WORKLOAD, database=path, similar=False) is None
    with pytest.warns(sl.UntunedWarning, match="no record on"):
        sl.apply(WORKLOAD.mod, path)
    real = tuned(recorded, Real(), database=path, search="auto")
    assert real.earlier == 0 and {one.samples for one in real.records} == {(1.0,)}
    assert real.reference_latency == 1.0
    match = sl.best(WORKLOAD, database=path, similar=False)
    assert match is not None and match.latency == 1.0
    again = tuned(recorded, SimulatedMeasurer(recorded, seed=5), database=path, trials=8)
    assert again.earlier == 0 and again.best.latency < 0.1
    with open_database(path, read_only=True) as database:
        machines = {one.target_key for one in database.query()}
        kept = database.query(status=sl.Status.OK)
    assert len(machines) == 3 and sum(one.startswith("simulated/") for one in machines) == 2
    assert len(kept) > len(simulated.records)
    assert all((one.latency < 0.1) == one.target_key.startswith("simulated/") for one in kept)


def test_other_searches_on_one_database_stay_in_the_recording(
    recorded: RecordedSpace, tmp_path: Path
) -> None:
    path = tmp_path / "shared.db"
    first = tuned(recorded, database=path)
    other = tuned(recorded, database=path, search="coordinate_descent")
    assert len(other.records) == 20 and other.earlier > 0
    known = {one.program_key: one.samples for one in first.records}
    assert any(one.program_key in known for one in other.records)
    assert all(known.get(k, s) == s for k, _, s in found(other))
    assert not math.isnan(other.best.latency)
