"""The measurer of recorded spaces: its contract, its samples, and its clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

import schedlang as sl
from schedlang.errors import TargetError
from schedlang.lab import RecordedProgram, RecordedSpace, Ways, simulation
from schedlang.measurement import Candidate, SimulatedMeasurer
from schedlang.measurement.clock import Clock
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.testing import measurers
from schedlang.testing.measurers import MeasurerContract
from schedlang.tuning.identity import _Describer
from schedlang.tvm.program import structural_key
from schedlang.workloads.workload import Workload
from tests.lab.made_up_space import made_up
from tests.spaces.partial_spaces import SPACES, WORKLOAD

UNBUILDABLE = structural_key(measurers.UNBUILDABLE)


class AnyProgram(RecordedSpace):
    """Has every program but the one that cannot be built."""

    def program(self, key: str) -> RecordedProgram:
        if key == UNBUILDABLE:
            return RecordedProgram(key, sl.Status.BUILD_ERROR, (), "it cannot be built", 0.1)
        samples = tuple(1e-4 * (1 + int(key[:2], 16)) * (1 + k / 50) for k in range(7))
        return RecordedProgram(key, sl.Status.OK, samples, "", 0.2, 0.1)


class OfTwo(SimulatedMeasurer):
    """Measures on the recordings of two workloads."""

    def __init__(self, known: Sequence[RecordedSpace]) -> None:
        super().__init__(known[0])
        self._known = known
        self._key = super().key

    @property
    def key(self) -> str:
        return self._key

    def bind(self, workload: Workload) -> None:
        [self.recorded] = [one for one in self._known if one.workload == workload]
        super().bind(workload)


class TestContract(MeasurerContract):
    @pytest.fixture
    def measurer(self) -> Any:
        return OfTwo(
            [
                AnyProgram(workload, "cpu", "none", Ways(), (), (seconds,))
                for workload, seconds in (
                    (measurers.WORKLOAD, 1e-3),
                    (measurers.OTHER_WORKLOAD, 2e-3),
                )
            ]
        )


@pytest.fixture(scope="module")
def recorded() -> RecordedSpace:
    part = SPACES["ordinary"].restricted(WORKLOAD, 60, seed=1)
    return made_up(part, WORKLOAD, [sl.Status.WRONG_RESULT, sl.Status.CRASHED])


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    """No real time passes."""
    monkeypatch.setattr(Clock, "now", lambda self: 0.0)


def candidates(recorded: RecordedSpace, *numbers: int) -> list[Candidate]:
    """Return programs of the recording, which are never made."""
    keys = [recorded.programs[number].key for number in numbers]
    return [Candidate(number, _unmade, key) for number, key in zip(numbers, keys, strict=True)]


def _unmade() -> Any:
    raise AssertionError("the program was made")


# -- what it measures -----------------------------------------------------------------------------


def test_programs_end_as_they_did(recorded: RecordedSpace) -> None:
    measurer = SimulatedMeasurer(recorded)
    wrong, crashed, good = measurer.measure(candidates(recorded, 0, 1, 5))
    assert (wrong.status, crashed.status) == (sl.Status.WRONG_RESULT, sl.Status.CRASHED)
    assert wrong.message == "it ended as wrong_result" and not wrong.samples
    assert good.ok and good.verified and set(good.samples) <= set(recorded.programs[5].samples)
    assert (good.build_seconds, good.run_seconds) == (0.5, 0.125)


def test_samples_depend_on_the_seed_and_the_program_alone(recorded: RecordedSpace) -> None:
    def samples(seed: int, *numbers: int) -> dict[int, tuple[float, ...]]:
        found = SimulatedMeasurer(recorded, seed).measure(candidates(recorded, *numbers))
        return {one.id: one.samples for one in found}

    assert samples(1, 4, 5, 6)[6] == samples(1, 6)[6]
    assert samples(1, 6) != samples(2, 6)
    measurer = SimulatedMeasurer(recorded)
    again = [next(measurer.measure(candidates(recorded, 6))).samples for _ in range(4)]
    assert len(set(again)) > 1, "measuring again draws again"


def test_what_it_does_not_have(recorded: RecordedSpace) -> None:
    measurer = SimulatedMeasurer(recorded)
    measurer.bind(WORKLOAD)
    with pytest.raises(sl.RecordingError, match=r"no program 0{16}: it has \d+"):
        list(measurer.measure([Candidate(0, WORKLOAD.mod, "0" * 16)]))
    with pytest.raises(TargetError, match="one of matmul, not of matmul"):
        measurer.bind(sl.workloads.matmul(8, 8, 8))
    with pytest.raises(TypeError, match="recorded is a RecordedSpace, not str"):
        SimulatedMeasurer("one.space")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="builders=0"):
        SimulatedMeasurer(recorded, builders=0)
    assert measurer.reference_latency == 1e-3
    [reference] = measurer.measure([Candidate(REFERENCE_ID, WORKLOAD.mod)])
    assert reference.latency == 1e-3


# -- its clock ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(("builders", "seconds"), [(1, 4 * 0.5 + 0.125), (2, 2 * 0.5 + 2 * 0.125)])
def test_builds_overlap_with_runs_and_with_each_other(
    recorded: RecordedSpace, builders: int, seconds: float
) -> None:
    measurer = SimulatedMeasurer(recorded, builders=builders)
    began = measurer.clock.now()
    assert len(list(measurer.measure(candidates(recorded, 4, 5, 6, 7)))) == 4
    assert measurer.clock.now() - began == pytest.approx(seconds)
    assert sum(measurer.seconds.values()) == pytest.approx(seconds)
    assert measurer.seconds["run"] == pytest.approx(4 * 0.125)


@pytest.mark.usefixtures("frozen")
def test_nothing_is_measured_past_the_deadline(recorded: RecordedSpace) -> None:
    measurer = SimulatedMeasurer(recorded, builders=1)
    measurer.deadline = measurer.clock.now() + 1.5
    assert len(list(measurer.measure(candidates(recorded, 4, 5, 6, 7)))) == 2
    assert measurer.clock.now() == measurer.deadline
    assert list(measurer.measure(candidates(recorded, 4))) == []
    assert measurer.remeasure(candidates(recorded, 4, 5)) == []


@pytest.mark.usefixtures("frozen")
def test_finals_end_with_their_budget(recorded: RecordedSpace) -> None:
    slow = [replace(one, samples=tuple(1e4 * s for s in one.samples)) for one in recorded.programs]
    measurer = SimulatedMeasurer(replace(recorded, programs=slow))
    three = candidates(recorded, 20, 21, 22)
    began = measurer.clock.now()
    found = measurer.remeasure(three, rounds=30, budget_seconds=3.0)
    [rounds] = {len(one.samples) for one in found}
    assert 2 < rounds < 10
    assert 3.0 < measurer.clock.now() - began < 3.0 + 1.5 + 1.0


@pytest.mark.parametrize(
    ("kind", "module"),
    [
        (RecordedProgram, "schedlang.measurement.recorded"),
        (RecordedSpace, "schedlang.measurement"),
        (SimulatedMeasurer, "schedlang.measurement"),
        (Ways, "schedlang.measurement.recorded"),
    ],
)
def test_stored_runs_know_it_by_its_first_name(kind: type, module: str) -> None:
    """An identity holds the name of a class: where the file of the class stands does not count."""
    assert _Describer().describe(kind) == ["class", module, kind.__name__]
    assert getattr(import_module(module), kind.__name__) is kind


def test_scores_and_the_emulator_keep_their_names() -> None:
    old = import_module("schedlang.measurement.recorded.score")
    assert old.score is simulation.score
    assert import_module("schedlang.targets.cuda.emulator").emulate is sl.targets.cuda.emulate
