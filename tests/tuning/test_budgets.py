"""Budgets of trials and of wall time, and where the time went."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

import schedlang as sl
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.targets import LocalCPU
from schedlang.testing.spaces import ORDINARY, TINY, small_workload
from schedlang.tuning.budget import Budget, FinalsPlan
from tests.tuning.fake_time import FakeTime

LATENCY = 1e-5


class Pretends:
    """A measurer that runs nothing: every candidate takes it ``seconds`` of a clock."""

    reference_latency = 10 * LATENCY

    def __init__(self, seconds: float = 0.0, clock: FakeTime | None = None) -> None:
        self.batches: list[int] = []
        self.finals_budget: float | None = None
        self._seconds = seconds
        self._clock = FakeTime() if clock is None else clock

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        self.batches.append(len(candidates))
        for candidate in candidates:
            self._clock.sleep(self._seconds)
            samples = (LATENCY * (1 + candidate.id % 7),) * 3
            yield Measurement(candidate.id, Status.OK, samples, verified=True)

    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 5.0
    ) -> list[Measurement]:
        self.finals_budget = budget_seconds
        return [Measurement(c.id, Status.OK, (LATENCY,) * 8, verified=True) for c in candidates]

    def close(self) -> None:
        """Nothing to stop."""


def tune(measurer: Pretends, **given: object) -> sl.TuneResult:
    arguments = {"space": ORDINARY, "search": "random", **given}
    return sl.tune(small_workload(), measurer=measurer, **arguments)  # type: ignore[arg-type]


def test_sixty_four_trials_by_default() -> None:
    assert len(tune(Pretends()).records) == 64


def test_batches_are_as_large_as_asked_for_and_the_trials_allow() -> None:
    measurer = Pretends()
    tune(measurer, trials=25, batch=10)
    assert measurer.batches == [10, 10, 5]


def test_time_ends_a_run_and_gives_the_best_so_far(clock: FakeTime) -> None:
    result = tune(Pretends(0.005, clock), seconds=0.5)
    assert result.finished == "0.3 of 0.5 s are over; the rest is kept for the finals"
    assert 0 < len(result.records) < 100
    assert result.best.latency == LATENCY


def test_trials_end_a_run_before_its_time() -> None:
    result = tune(Pretends(), seconds=1000, trials=5)
    assert result.finished == "5 trials" and len(result.records) == 5


def test_without_a_number_of_trials_time_alone_counts(clock: FakeTime) -> None:
    assert len(tune(Pretends(0.01, clock), seconds=2).records) > 64


def test_an_exhausted_search_ends_a_run_before_its_time() -> None:
    result = tune(Pretends(), seconds=1000, space=TINY)
    assert result.finished.startswith("all ")


def test_batches_shrink_towards_the_end(clock: FakeTime) -> None:
    measurer = Pretends(0.02, clock)
    tune(measurer, seconds=1.0, finals=0)
    assert measurer.batches[0] == 8
    assert measurer.batches[-1] < max(measurer.batches)


def test_finals_get_what_is_left(clock: FakeTime) -> None:
    measurer = Pretends(0.05, clock)
    tune(measurer, seconds=4)
    assert measurer.finals_budget is not None and 0 <= measurer.finals_budget < 0.2
    tune(measurer, seconds=100, trials=4)
    assert measurer.finals_budget == 5


class PretendsToBeSlow(Pretends):
    """Candidates take seconds, and so do the finals of each."""

    reference_latency = 100.0
    finalists = 0

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for found in super().measure(candidates):
            yield replace(found, samples=(1.0 + found.id / 100,))

    def remeasure(
        self, candidates: Sequence[Candidate], rounds: int = 30, budget_seconds: float = 5.0
    ) -> list[Measurement]:
        self.finalists = len(candidates)
        return super().remeasure(candidates, rounds, budget_seconds)


def test_slow_candidates_enter_the_finals_as_far_as_there_is_time(clock: FakeTime) -> None:
    measurer = PretendsToBeSlow(2.0, clock)
    assert tune(measurer, trials=6).best.finals and measurer.finalists == 5
    # Seven seconds for each of two finalists, and what ends a run.
    tune(measurer, trials=6, seconds=12 + 18)
    assert measurer.finalists == 2
    result = tune(measurer, trials=6, seconds=12 + 9)
    assert result.best.finals is None and result.best.latency == 1.0


@pytest.mark.parametrize("seconds", [0, -1, math.inf, math.nan, "60"])
def test_a_budget_is_a_positive_number(seconds: object) -> None:
    with pytest.raises(ValueError, match="seconds=.*give a positive number"):
        tune(Pretends(), seconds=seconds)


@pytest.mark.parametrize("batch", [0, 1.5])
def test_a_batch_is_a_whole_number(batch: object) -> None:
    with pytest.raises(ValueError, match=f"batch={batch}"):
        tune(Pretends(), batch=batch)


def test_a_measurer_of_this_machine_stops_when_its_time_is_over() -> None:
    workload = small_workload()
    candidates = [Candidate(seed, ORDINARY.sample(workload, seed=seed).mod) for seed in range(200)]
    with LocalCPU(workload) as measurer:
        assert len(list(measurer.measure(candidates[:2]))) == 2
        measurer.deadline = time.monotonic() + 0.5
        assert len(list(measurer.measure(candidates))) < 200
        assert list(measurer.measure(candidates)) == []
        measurer.deadline = math.inf
        assert len(list(measurer.measure(candidates[:2]))) == 2


SLOW = sl.workloads.matmul(640, 640, 640)
"""The unscheduled program takes some tenths of a second."""
MUCH_LATER = 60.0
"""Seconds within which a run is over on a busy machine, and without a limit it is not."""


def test_a_run_on_this_machine_is_over_in_time() -> None:
    """On a busy machine it may be somewhat late, and measure little."""
    result = sl.tune(SLOW, seconds=5, progress=False)
    assert result.seconds < MUCH_LATER
    assert "5 s are over" in result.finished


def test_a_run_is_over_in_time_though_no_worker_is_ready() -> None:
    result = sl.tune(SLOW, seconds=0.2, progress=False)
    assert result.seconds < MUCH_LATER
    assert result.finished == "0.2 s are over before a worker was ready"
    assert not result.records and math.isnan(result.reference_latency)
    assert "unscheduled" not in str(result)
    with pytest.raises(sl.SchedlangError, match="the search ended: 0.2 s are over before"):
        _ = result.best


def test_the_unscheduled_program_is_not_timed_longer_than_there_is_time() -> None:
    with LocalCPU(SLOW) as measurer:
        measurer.deadline = time.monotonic() + 3600
        assert 0 < measurer.reference_latency < math.inf
    with LocalCPU(SLOW) as measurer:
        measurer.deadline = time.monotonic()
        assert math.isnan(measurer.reference_latency)


def test_the_time_split_adds_up() -> None:
    result = sl.tune(small_workload(), space=ORDINARY, trials=8, search="evolutionary")
    split = result.time_split
    parts = {"search", "model", "start", "build", "run", "measure", "finals", "other"}
    assert split.keys() == parts
    assert sum(split.values()) == pytest.approx(result.seconds, rel=0.01)
    assert all(split[name] > 0 for name in parts - {"model"})
    assert "  time        " in str(result) and "start " in str(result)


def test_a_measurer_that_says_no_more_has_one_part(clock: FakeTime) -> None:
    split = tune(Pretends(0.01, clock), trials=8).time_split
    assert "build" not in split and split["measure"] == pytest.approx(8 * 0.01)


class Accountable(Pretends):
    """Keeps a deadline, and says what its time went into."""

    deadline = math.inf

    def __init__(self, seconds: float, clock: FakeTime) -> None:
        super().__init__(seconds, clock)
        self.seconds = {"run": 0.0}
        self.deadlines: list[float] = []

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        self.deadlines.append(self.deadline)
        self.seconds["run"] += len(candidates) * self._seconds
        return super().measure(candidates)


def test_a_measurer_is_told_the_deadline_of_the_search(clock: FakeTime) -> None:
    measurer = Accountable(0.02, clock)
    end = clock.now + 1.0
    tune(measurer, seconds=1.0, finals=0)
    assert measurer.deadlines == [pytest.approx(end)] * len(measurer.batches)
    assert measurer.deadline == math.inf


def test_the_time_split_of_a_measurer_that_was_used_before(clock: FakeTime) -> None:
    measurer = Accountable(0.01, clock)
    for _ in range(2):
        split = tune(measurer, trials=8).time_split
        assert split["run"] == pytest.approx(8 * 0.01)
        assert split["measure"] == pytest.approx(0)


def test_the_budget_keeps_the_time_that_finals_take_now() -> None:
    unlimited, limited = Budget(), Budget(100)
    assert unlimited.search_deadline(True) == math.inf and not unlimited.limited
    plans = [FinalsPlan(2.0, 5.0), FinalsPlan(1.0, 3.0)]

    def kept() -> float:
        return limited.search_deadline(False) - limited.search_deadline(True)

    for number in range(2):
        limited.plan_finals(lambda number=number: plans[number])  # type: ignore[misc]
    assert kept() == pytest.approx(2 + 5 + 1 + 3 + 1)
    plans[1] = FinalsPlan(10.0, 30.0)
    assert kept() == pytest.approx(20), "samples get a fifth at most: there are fewer then"
    plans[1] = FinalsPlan(25.0, 30.0)
    assert kept() == pytest.approx(2 + 25 + 1), "without being prepared there are none"
    plans[1] = FinalsPlan(90.0, 30.0)
    assert kept() == pytest.approx(35)
