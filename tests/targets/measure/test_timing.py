from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest

from schedlang.measurement.disturbance import Disturbance, Sample, counting, disturbance_of
from schedlang.targets.measure.timing import (
    ProgramTiming,
    TimingPolicy,
    collect,
    relative_half_width,
    shortest_call,
)


class Program:
    """Takes the time it is told to, on its own clock."""

    def __init__(self, latency: Callable[[int], float], cold: float = 0.0) -> None:
        self.now = 0.0
        self.calls: list[int] = []
        self._latency = latency
        self._cold = cold

    def run(self, calls: int) -> float:
        seconds = self._latency(len(self.calls)) + (self._cold if not self.calls else 0.0)
        self.calls.append(calls)
        self.now += seconds * calls
        return seconds

    def clock(self) -> float:
        return self.now


def timed(program: Program, best: float | None = None, **policy: float) -> ProgramTiming:
    return collect(program.run, TimingPolicy(**policy), best, program.clock)  # type: ignore[arg-type]


def test_a_short_program_runs_in_batches() -> None:
    program = Program(lambda _: 5e-6)
    timing = timed(program, min_sample_seconds=5e-4, min_seconds=0.0)
    assert timing.samples == (5e-6,) * 5
    assert program.calls[-5:] == [100] * 5


def test_a_long_program_runs_once_a_sample_and_is_not_run_in_vain() -> None:
    program = Program(lambda _: 0.01)
    assert timed(program).samples == (0.01,) * 5
    assert program.calls == [1] * 6


def test_the_first_call_is_no_sample() -> None:
    assert max(timed(Program(lambda _: 0.002, cold=0.005)).samples) == 0.002


def test_a_noisy_program_gets_more_samples() -> None:
    quiet = timed(Program(lambda n: 0.005), max_repeats=30, max_seconds=1.0)
    noisy = timed(Program(lambda n: 0.005 * (1 + 0.3 * (n % 3))), max_repeats=30, max_seconds=1.0)
    assert len(quiet.samples) == 5
    assert len(noisy.samples) == 30


def test_a_noisy_program_that_is_surely_slower_gets_no_more_samples() -> None:
    def noisy(n: int) -> float:
        return 0.005 * (1 + 0.1 * (n % 3))

    for best, fewest in (0.0045, 5), (0.0054, 30):
        timing = timed(Program(noisy), best=best, max_repeats=30, max_seconds=1.0)
        assert fewest <= len(timing.samples) <= 1.5 * fewest and not timing.gave_up


def test_a_program_that_stays_noisy_is_let_go_after_a_while() -> None:
    program = Program(lambda n: 0.01 * (1 + n % 2))
    timing = timed(program, max_seconds=0.1, budget_seconds=10.0)
    assert len(timing.samples) >= 5 and program.now < 0.15


def test_samples_are_taken_for_long_enough_to_outlast_a_short_disturbance() -> None:
    timing = timed(Program(lambda n: 0.004 if n < 4 else 0.001), min_seconds=0.02)
    assert sum(timing.samples) >= 0.02
    assert statistics.median(timing.samples) == 0.001


def test_the_budget_ends_it() -> None:
    program = Program(lambda n: 0.2 * (1 + n % 2))
    timing = timed(program, budget_seconds=1.0)
    assert program.now < 1.5 and 1 <= len(timing.samples) < 5


def test_one_call_beyond_the_budget_is_all() -> None:
    program = Program(lambda _: 5.0)
    assert timed(program, budget_seconds=1.0) == ProgramTiming((5.0,))
    assert program.calls == [1]


def test_a_program_far_slower_than_the_best_is_given_up_at_once() -> None:
    program = Program(lambda _: 0.1)
    assert timed(program, best=0.001) == ProgramTiming((0.1,), gave_up=True)
    assert program.calls == [1]


def test_a_program_slower_than_the_best_is_given_up_after_two_calls() -> None:
    program = Program(lambda _: 0.005)
    assert timed(program, best=0.001) == ProgramTiming((0.005,), gave_up=True)
    assert program.calls == [1, 1]


def test_a_short_program_far_slower_than_the_best_is_given_up_after_two_samples() -> None:
    for latency, most in (4e-5, 0.012), (7e-5, 0.005):
        program = Program(lambda _, seconds=latency: seconds)  # type: ignore[misc]
        assert timed(program, best=1e-5) == ProgramTiming((latency,) * 2, gave_up=True)
        assert program.now < most


def test_a_cold_start_alone_gives_nothing_up() -> None:
    program = Program(lambda _: 1e-4, cold=0.008)
    timing = timed(program, best=1e-4)
    assert not timing.gave_up and len(timing.samples) >= 5


@pytest.mark.parametrize(("latency", "samples"), [(0.0028, 3), (0.0014, 4), (0.00028, 9)])
def test_a_program_a_little_slower_is_given_up_after_a_while(latency: float, samples: int) -> None:
    """It takes three samples, and 5 ms."""
    timing = timed(Program(lambda _: latency), best=latency / 1.4)
    assert timing.gave_up and len(timing.samples) == samples


class Waking(Program):
    """On a core that has been idle: nearly twice as slow for some milliseconds."""

    def __init__(self, latency: float) -> None:
        super().__init__(lambda _: latency * (1.8 if self.now < 0.006 else 1.0))


def test_a_core_that_was_idle_gets_time_to_reach_its_speed() -> None:
    for latency in (3e-5, 1e-3, 5e-3):
        timing = timed(Waking(latency), best=latency)
        assert not timing.gave_up and max(timing.samples) == latency
    slow = timed(Waking(1e-4), best=1e-4, warm_seconds=0.0)
    assert slow.gave_up and set(slow.samples) == {1.8e-4}
    cold = timed(Waking(1e-4), best=1e-4, flush_cache=True)
    assert cold.gave_up, "emptying the caches takes longer than the program"


def test_a_program_as_fast_as_the_best_is_not_given_up() -> None:
    timing = timed(Program(lambda _: 0.0105), best=0.01)
    assert not timing.gave_up and len(timing.samples) == 5


def test_one_fast_sample_keeps_a_program_in() -> None:
    timing = timed(Program(lambda n: 0.005 if n == 3 else 0.007), best=0.005)
    assert not timing.gave_up and min(timing.samples) == 0.005


def test_an_interruption_does_not_widen_the_interval() -> None:
    assert relative_half_width([1.0] * 9 + [50.0]) < 0.01
    assert relative_half_width([1.0, 1.2, 0.8, 1.1, 0.9]) > 0.05


def test_wrong_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="min_repeats=9, max_repeats=3"):
        TimingPolicy(min_repeats=9, max_repeats=3)


def test_with_cold_caches_calls_are_timed_one_by_one() -> None:
    program = Program(lambda _: 5e-6)
    timing = collect(program.run, TimingPolicy(flush_cache=True), None, program.clock)
    assert timing.samples == (5e-6,) * 5
    assert set(program.calls) == {1}


def test_the_shortest_call_follows_the_clock() -> None:
    """A clock that is asked four times for each of its ticks."""
    asked = iter(range(10**6))
    assert shortest_call(lambda: (next(asked) // 4) * 1e-6) == pytest.approx(1e-4)
    assert 0 < shortest_call() < 1e-3


class DisturbedProgram(Program):
    """Takes its time, and what its threads wait for a core at this call."""

    def __init__(self, latency: float, waited: Callable[[int], float | None]) -> None:
        super().__init__(lambda number: latency + (waited(number) or 0.0))
        self._waited = waited

    def run(self, calls: int) -> Sample:  # type: ignore[override]
        waited = self._waited(len(self.calls))
        return Sample(super().run(calls), None if waited is None else waited)


def test_disturbed_samples_do_not_count() -> None:
    program = DisturbedProgram(0.001, lambda n: 0.01 if n % 3 else 0.0)
    timing = timed(program)
    assert set(timing.samples) == {0.001} and len(timing.samples) >= 5
    found = timing.disturbance
    assert found is not None and found.settled and found.disturbed > found.undisturbed
    assert (found.low, found.high) == (0.001, 0.001)


def test_waiting_a_thousandth_disturbs_nothing() -> None:
    timing = timed(DisturbedProgram(0.001, lambda _: 1e-6))
    assert timing.disturbance is not None and timing.disturbance.disturbed == 0
    assert len(timing.samples) == len(timed(Program(lambda _: 0.001)).samples)


def test_where_every_sample_is_disturbed_the_bounds_say_what_is_known() -> None:
    program = DisturbedProgram(0.004, lambda n: 0.003 + 0.001 * (n % 2))
    timing = timed(program, min_sample_seconds=0.0)
    assert timing.samples == (0.007,)
    assert timing.disturbance is not None and not timing.disturbance.settled
    assert timing.disturbance.low == 0.004 and timing.disturbance.high == 0.007


def test_it_is_patient_with_a_program_that_could_win_only() -> None:
    def now(best: float) -> float:
        program = DisturbedProgram(0.004, lambda n: 0.01 if n else 0.0)
        timed(program, best=best)
        return program.now

    assert now(best=0.004) >= 1.0 > 0.25 > now(best=0.0005)


def test_a_disturbed_program_is_not_given_up_for_what_others_took() -> None:
    """One record stood at 3.9 ms for a program that takes 0.69."""
    program = DisturbedProgram(0.0007, lambda n: 0.05 if n < 12 else 0.0)
    timing = timed(program, best=0.0008)
    assert not timing.gave_up and set(timing.samples) == {0.0007}


def test_a_slow_program_is_given_up_although_it_is_disturbed() -> None:
    timing = timed(DisturbedProgram(0.02, lambda _: 0.01), best=0.001)
    assert timing.gave_up


def test_three_undisturbed_samples_are_enough_on_a_busy_machine() -> None:
    program = DisturbedProgram(0.001, lambda n: 0.0 if n in (8, 16, 24) else 0.01)
    timing = timed(program, best=0.001)
    assert timing.samples == (0.001,) * 3
    assert len(program.calls) == 25


def test_a_short_program_is_calibrated_by_undisturbed_samples() -> None:
    program = DisturbedProgram(5e-6, lambda n: 0.01 if n in (0, 1, 2) else 0.0)
    timed(program)
    assert program.calls[5] == 100


def test_where_waiting_is_unknown_all_samples_count() -> None:
    timing = timed(DisturbedProgram(0.001, lambda _: None))
    assert timing.disturbance is None and len(timing.samples) >= 5


def test_impossible_times_are_kept_for_those_who_refuse_them() -> None:
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
        samples = [Sample(seconds, 0.0)]
        assert disturbance_of(samples) is None
        assert len(counting(samples)) == 1


@pytest.mark.parametrize(
    "wrong", [(-1, 0, 0.0, 1.0), (0, -1, 0.0, 1.0), (0, 1, -1.0, 1.0), (0, 1, 2.0, 1.0)]
)
def test_wrong_disturbances_are_refused(wrong: tuple[int, int, float, float]) -> None:
    with pytest.raises(ValueError, match="give numbers"):
        Disturbance(*wrong)
