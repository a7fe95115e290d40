"""``survey``: all programs of a space are measured, also in several calls."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import schedlang as sl
from schedlang.database import open_database
from schedlang.lab import RecordedSpace
from schedlang.lab.recording import MOST_SAMPLES
from schedlang.measurement import SimulatedMeasurer
from schedlang.measurement.clock import Clock, Phase
from schedlang.targets import as_target
from schedlang.testing.spaces import BROKEN, HOPELESS
from schedlang.tuning import surveys as enumeration
from tests.lab.made_up_space import made_up
from tests.spaces.partial_spaces import SPACES, WORKLOAD, keys_of

SMALL = sl.workloads.matmul(16, 16, 16)


@sl.module
def careless(sch: sl.Schedule, block: sl.BlockRV) -> None:
    """Half of the programs compute in float16, which is not exact enough."""
    if sch.choose("way", ("exact", "float16")) == "float16":
        sch.cache_write(block, 0, "global")
        sch.set_dtype(block, 0, "float16")
    sch.annotate(block, "number", sch.sample_categorical([1, 2], name="number"))


def test_all_programs_are_measured_and_verified(tmp_path: Path) -> None:
    given: dict[str, Any] = {"space": careless, "database": tmp_path / "s.db", "progress": False}
    recorded = sl.survey(SMALL, **given)
    assert sorted(recorded.numbers) == sorted(keys_of(sl.Space([careless]), SMALL))
    statuses = [one.status for one in recorded.programs]
    assert statuses.count(sl.Status.OK) == statuses.count(sl.Status.WRONG_RESULT) == 2
    for program in recorded.programs:
        assert (program.latency < 1.0) == (program.status is sl.Status.OK) == (not program.message)
        assert program.build_seconds > 0 and program.run_seconds > 0
    with open_database(tmp_path / "s.db", read_only=True) as database:
        records = {one.program_key: one for one in database.query() if not one.unscheduled}
    assert all(one.verified == one.ok for one in records.values())
    works = next(one for one in recorded.programs if one.samples)
    measured = statistics.median(records[works.key].samples)
    assert works.latency == pytest.approx(measured, rel=5e-4)
    assert len(works.samples) == min(len(records[works.key].samples), MOST_SAMPLES)
    assert recorded.target_key == as_target("cpu").key and recorded.reference[0] > 0
    assert recorded.about["seconds"] > 0
    recorded.save(tmp_path / "s.space")
    again = sl.load_survey(tmp_path / "s.space")
    assert again.digest == recorded.digest
    result = sl.tune(
        SMALL,
        space=again.space,
        search="grid",
        measurer=SimulatedMeasurer(again),
        progress=False,
    )
    assert len(result.records) == 4 and result.rejected["wrong_result"] == 2


@pytest.fixture(scope="module")
def known() -> RecordedSpace:
    return made_up(SPACES["two_tiles"], WORKLOAD, [sl.Status.CRASHED])


FAILS: dict[str, sl.Status] = {}
"""Programs that fail although the recording has a latency."""


class Timed(SimulatedMeasurer):
    """Tells when it built and ran, but for one candidate in three."""

    def measure(self, candidates: Sequence[sl.Candidate]) -> Iterator[sl.Measurement]:
        for one, found in zip(candidates, super().measure(candidates), strict=False):
            built = found.build_seconds
            end = built + found.run_seconds
            phases = (Phase("build", 0.0, built), Phase("run", built, end)) if one.id % 3 else ()
            if one.program_key in FAILS:
                found = sl.Measurement(one.id, FAILS[one.program_key], message="it failed")
            yield replace(found, phases=phases)


@pytest.fixture
def machine(known: RecordedSpace, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Measures on a recording, by its clock alone; returns how it was asked to measure."""
    asked: list[dict[str, Any]] = []

    def measurer(self: Any, workload: sl.Workload, **options: Any) -> SimulatedMeasurer:
        asked.append(options)
        return Timed(known)

    monkeypatch.setattr(type(as_target("cpu")), "measurer", measurer)
    monkeypatch.setattr(Clock, "now", lambda self: 0.0)
    return asked


def surveyed(database: Path | None = None, **given: Any) -> RecordedSpace:
    options: dict[str, Any] = {"space": SPACES["two_tiles"], "progress": False}
    return sl.survey(WORKLOAD, database=database, **options | given)


def test_what_it_records_is_what_was_measured(
    known: RecordedSpace, machine: list[dict[str, Any]]
) -> None:
    recorded = surveyed(seed=3)
    assert machine == [{"verify": "all", "seed": 3, "gives_up": False}]
    assert list(recorded.ways) == list(known.ways)
    for one, other in zip(recorded.programs, known.programs, strict=True):
        assert (one.key, one.status, one.message) == (other.key, other.status, other.message)
        for sample in one.samples:
            assert any(sample == pytest.approx(known, rel=5e-4) for known in other.samples)
    assert recorded.reference == (1e-3,)


@pytest.mark.usefixtures("machine")
def test_a_survey_goes_on_where_its_time_was_over(known: RecordedSpace, tmp_path: Path) -> None:
    path, total = tmp_path / "s.db", len(known.programs)
    counts = []
    for seconds in (2.0, 5.0):
        with pytest.raises(sl.RecordingError, match="programs of matmul are not measured"):
            surveyed(path, seconds=seconds)
        with open_database(path, read_only=True) as database:
            counts.append(sum(not one.unscheduled for one in database.query()))
    assert 0 < counts[0] < counts[1] < total
    recorded = surveyed(path)
    assert [one.key for one in recorded.programs] == [one.key for one in known.programs]
    with open_database(path, read_only=True) as database:
        assert sum(not one.unscheduled for one in database.query()) == total
        assert len(database.runs()) == 1
    times = {(round(one.build_seconds, 2), round(one.run_seconds, 3)) for one in recorded.programs}
    assert times == {(0.5, 0.125), (0.25, 0.0)}, "where they are not known, the median stands"
    again = surveyed(path)
    assert again.digest == recorded.digest


@pytest.mark.usefixtures("machine")
def test_the_order_is_random_and_says_nothing_of_the_program(known: RecordedSpace) -> None:
    with pytest.raises(sl.RecordingError) as error:
        surveyed(seconds=2.0, seed=1)
    assert "not measured" in str(error.value)
    orders = []
    for seed in (1, 2):
        space, ways = SPACES["two_tiles"], known.ways
        keys = [one.key for one in known.programs]
        listed = enumeration.Listed(space, WORKLOAD, seed, ways=ways, keys=keys)
        orders.append([one.program_key for one in listed.ask(10**6)])
        assert listed.finished == f"all {len(keys)} programs proposed" and not listed.rejections
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1]) == sorted(keys)


def test_spaces_that_cannot_be_surveyed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(sl.RecordingError, match="no way through the space of matmul gives"):
        sl.survey(SMALL, space=HOPELESS)
    with pytest.raises(ZeroDivisionError):
        sl.survey(SMALL, space=BROKEN)
    monkeypatch.setattr(enumeration, "MOST_PROGRAMS", 20)
    with pytest.raises(sl.SpaceError, match="more than 20 programs"):
        sl.survey(WORKLOAD, space=SPACES["two_tiles"])


@pytest.mark.usefixtures("machine")
def test_a_survey_without_a_program_that_works(
    known: RecordedSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    for one in known.programs:
        monkeypatch.setitem(FAILS, one.key, sl.Status.RUN_TIMEOUT)
    with pytest.raises(sl.RecordingError, match="no program of matmul works; the first: it failed"):
        surveyed()
