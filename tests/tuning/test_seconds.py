"""``seconds=`` holds, however slow the machine is: all of it is played."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pytest

import schedlang as sl
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.testing.spaces import ORDINARY, small_workload
from schedlang.tuning.budget import Budget, FinalsPlan, Pace, batch_for
from tests.tuning.fake_time import Played


class Busy(sl.Measurer):
    """Its worker needs ``start`` seconds, and each candidate ``each``; it ends at the deadline.

    All latencies are alike, so that all candidates take part in the finals.
    """

    def __init__(self, start: float, each: float) -> None:
        self.clock: Played = Played()
        self.rounds = 0
        self._start, self._each = start, each

    def _spend(self, seconds: float) -> bool:
        """Whether there was time for it; where it was not, it is now the deadline."""
        left = self.deadline - self.clock.now()
        self.clock.sleep(max(min(seconds, left), 0.0))
        return seconds <= left

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        self.rounds += 1
        if not self._spend(self._start):
            return
        self._start = 0.0
        for candidate in candidates:
            if not self._spend(self._each):
                return
            samples = tuple(1e-3 * (1 + 0.001 * k) for k in range(8))
            yield Measurement(
                candidate.id, Status.OK, samples, verified=True, build_seconds=self._each
            )


def tune(measurer: Busy, seconds: float, **options: object) -> sl.TuneResult:
    return sl.tune(
        small_workload(),
        space=ORDINARY,
        seconds=seconds,
        search="random",
        measurer=measurer,
        progress=False,
        **options,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("seconds", [5.0, 15.0])
@pytest.mark.parametrize("start", [0.0, 2.0, 12.0])
@pytest.mark.parametrize("each", [0.5, 4.0, 30.0])
def test_a_run_ends_in_time(seconds: float, start: float, each: float) -> None:
    """The start, candidates of any length and the finals included."""
    measurer = Busy(start, each)
    began = measurer.clock.now()
    result = tune(measurer, seconds)
    assert measurer.clock.now() - began == pytest.approx(result.seconds)
    assert result.seconds <= seconds
    said, _, why = result.finished.partition("; ")
    assert said.partition(" before")[0].endswith(f"{seconds:g} s are over")
    if why:
        assert why == "the rest is kept for the finals"
        assert float(said.split()[0]) <= round(result.seconds, 1) and said.split()[1] == "of"
    # The unscheduled program is a candidate that is measured first.
    if start + 2 * each < 0.6 * seconds:
        assert result.records and result.has_best


def test_finals_take_the_rounds_that_there_is_time_for() -> None:
    result = tune(Busy(1.0, 0.1), 10.0)
    finals = result.best.finals
    assert finals is not None and finals.held
    assert 2 <= len(finals.winner.samples) < 30
    assert 9.0 < result.seconds <= 10.0


def test_programs_that_take_long_to_build_leave_less_time_for_the_search() -> None:
    """Their finals are planned by what the search saw."""
    quick, slow = tune(Busy(1.0, 0.1), 30.0), tune(Busy(1.0, 0.5), 30.0)
    for result in (quick, slow):
        assert result.best.finals is not None and result.best.finals.held
    assert 4.0 < quick.time_split["finals"] < slow.time_split["finals"] < 11.0


def test_no_candidate_begins_that_would_be_cut_off() -> None:
    """What is cut off takes its worker with it, which the finals then have to start again."""

    class Noting(Busy):
        cut = 0

        def _spend(self, seconds: float) -> bool:
            found = super()._spend(seconds)
            self.cut += not found
            return found

    measurer = Noting(1.0, 0.9)
    result = tune(measurer, 30.0, finals=0)
    assert measurer.cut == 0 and result.seconds > 28.0


# -- the pace --------------------------------------------------------------------------------------


def paced(seconds: float | None, elapsed: float, measured: int, at_once: int = 1) -> Pace:
    """Of a run: what it measured, and the seconds that this took."""
    clock = Played()
    budget = Budget(seconds, clock)
    budget.plan_finals(lambda: FinalsPlan(0.0, 0.0))
    clock.sleep(elapsed)
    budget.measured = measured
    return Pace(budget, finals=False, at_once=at_once)


def test_a_batch_is_as_large_as_what_is_left_allows() -> None:
    assert paced(None, 90.0, 9).fit(64) == 64
    assert paced(100.0, 10.0, 0).fit(64) == 8, "nothing is known yet"
    assert paced(100.0, 10.0, 0, at_once=16).fit(64) == 32
    assert paced(100.0, 50.0, 10).fit(64) == 10
    assert paced(100.0, 90.0, 18).fit(64) == 2
    assert paced(100.0, 90.0, 18).fit(1) == 1
    late = paced(100.0, 98.0, 18)
    assert late.fit(64) == 0 and late.cut and late.out_of_time


def test_what_comes_before_the_first_candidate_counts_once() -> None:
    pace = paced(100.0, 40.0, 0)
    assert pace.fit(64) == 8
    pace._budget.clock.sleep(4.0)
    pace._budget.measured = 8
    assert pace.fit(64) == 64


@pytest.mark.parametrize(
    ("parallel", "trials", "size"),
    [(1, 1000, 16), (2, None, 16), (16, 1000, 64), (16, None, 64), (96, None, 128)]
    + [(16, 64, 32), (16, 20, 16)],
)
def test_a_batch_keeps_the_measurer_busy(parallel: int, trials: int | None, size: int) -> None:
    assert batch_for(parallel, trials) == size


def test_batches_grow_with_the_measurer() -> None:
    asked: list[int] = []

    class Wide(Busy):
        parallel = 8

        def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
            asked.append(len(candidates))
            return super().measure(candidates)

    def batches(**options: object) -> list[int]:
        asked.clear()
        kind = {"space": ORDINARY, "search": "random", "trials": 64, "finals": 0} | options
        sl.tune(small_workload(), measurer=Wide(0.0, 0.1), progress=False, **kind)  # type: ignore[arg-type]
        return [size for size in asked if size > 1]  # without the unscheduled program

    assert batches() == [32, 32]
    assert batches(batch=20) == [20, 20, 20, 4]


def test_what_asking_takes_counts() -> None:
    pace = paced(100.0, 50.0, 10)
    clock = pace._budget.clock
    with pace.asking():
        clock.sleep(20.0)
    assert pace.fit(64) == int((30 - 20) / 7)


def test_a_slice_has_one_batch_at_least_and_ends_in_time() -> None:
    pace = paced(100.0, 10.0, 10)
    now = pace._budget.clock.now()

    def found() -> tuple[int, bool, bool]:
        return pace.fit(64), pace.cut, pace.out_of_time

    pace.begin_slice(now + 5.0)
    assert found() == (5, False, False)
    pace.begin_slice(now - 1.0)
    assert found() == (1, False, False)
    assert found() == (0, True, False)
    pace.begin_slice(math.inf)
    assert found() == (64, False, False)
