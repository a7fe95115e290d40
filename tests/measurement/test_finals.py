"""The final choice: its statistics, and the candidates that take part."""

from __future__ import annotations

import dataclasses
import itertools
import math
import statistics
from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from scipy.stats import ttest_ind

import schedlang as sl
from schedlang.database import Record
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.contest import interleave
from schedlang.measurement.disturbance import Disturbance
from schedlang.measurement.finals import (
    FEWEST_SAMPLES,
    Finals,
    Interval,
    choose,
    could_win,
    is_noise,
    median_interval,
    verdict,
    within_drift,
)
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tvm.program import structural_key

RNG = np.random.default_rng(0)


def times(median: float, count: int = 20, spread: float = 0.01) -> list[float]:
    """Latencies as they come: right-skewed, never far below the median."""
    return [float(t) for t in median * (1 + spread * (RNG.exponential(size=count) - math.log(2)))]


# -- statistics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [6, 7, 20, 31])
def test_the_interval_covers_the_median_as_often_as_it_says(count: int) -> None:
    """Each sample lies below the true median with probability 1/2, whatever the distribution."""
    interval = median_interval([float(i) for i in range(count)])
    below, above = int(interval.low), count - 1 - int(interval.high)
    assert below == above
    # It misses if at most ``below`` samples are on one side of the median.
    missed = 2 * sum(math.comb(count, k) for k in range(below + 1)) / 2**count
    assert interval.confidence == pytest.approx(1 - missed) and interval.confidence >= 0.95
    one_narrower = 2 * sum(math.comb(count, k) for k in range(below + 2)) / 2**count
    assert 1 - one_narrower < 0.95


def test_few_samples_say_what_their_range_is_worth() -> None:
    assert median_interval([3.0]) == Interval(3.0, 3.0, 0.0)
    found = median_interval([3.0, 1.0, 2.0])
    assert (found.low, found.high, found.confidence) == (1.0, 3.0, 0.75)
    with pytest.raises(ValueError, match="at least one sample"):
        median_interval([])


def test_the_lowest_median_wins_and_the_difference_is_judged() -> None:
    finals = choose({7: times(1.1e-3), 3: times(1e-3), 5: times(2e-3)})
    assert [finalist.id for finalist in finals.ranking] == [3, 7, 5]
    assert finals.winner.id == 3 and finals.runner_up is not None and finals.runner_up.id == 7
    assert finals.p_value is not None and finals.p_value < 1e-4
    assert finals.winner.interval.low <= finals.winner.latency <= finals.winner.interval.high


def test_equal_programs_are_not_called_different() -> None:
    """False-failure rate 0: the seed is fixed. 5% of p-values are below 0.05 if all is well."""
    low = sum(
        p < 0.05
        for p in (choose({0: times(1e-3), 1: times(1e-3)}).p_value for _ in range(400))
        if p is not None
    )
    assert 5 <= low <= 40


def test_a_tie_goes_to_the_program_found_first() -> None:
    tied = [1e-3 * (1 + 1e-4 * k) for k in range(20)]
    nearly = [time * (1 - 2e-4) for time in tied]
    assert choose({7: nearly, 3: tied}).winner.id == choose({3: nearly, 7: tied}).winner.id == 3


def test_a_real_difference_is_no_tie() -> None:
    slower = [1.005e-3 * (1 + 1e-4 * k) for k in range(20)]
    faster = [1e-3 * (1 + 1e-4 * k) for k in range(20)]
    assert choose({3: slower, 7: faster}).winner.id == 7


def test_an_interruption_does_not_hide_a_difference() -> None:
    slow, fast = times(1.03e-3), times(1e-3)
    fast[4] = 50e-3
    assert ttest_ind(fast, slow, equal_var=False).pvalue > 0.1
    p_value = choose({0: fast, 1: slow}).p_value
    assert p_value is not None and p_value < 1e-3


def test_one_finalist_has_no_rival() -> None:
    finals = choose({2: times(1e-3)})
    assert finals.runner_up is None and finals.p_value is None
    assert "second" not in str(finals) and "95%" in str(finals) or "96%" in str(finals)


def test_nobody_to_choose_from() -> None:
    with pytest.raises(ValueError, match="no program"):
        choose({})


def test_the_text_is_one_short_line() -> None:
    text = str(choose({0: times(10e-3), 1: times(20e-3)}))
    assert "\n" not in text and len(text) < 90
    assert text.count(" ms") == 3 and "the second " in text and "p = " in text


def test_a_tie_is_called_a_tie() -> None:
    finals = choose({0: times(10e-3, spread=0.05), 1: times(10.01e-3, spread=0.05)})
    assert finals.tie and not finals.noisy
    assert "a tie with the runner-up: " in str(finals) and "noisy" not in str(finals)
    apart = choose({0: [1e-3, 1.1e-3], 1: [2e-3, 2.1e-3]})
    assert apart.p_value is not None and apart.p_value > 0.05
    assert not apart.tie, "two samples of each are too few for a low p-value"


def test_a_noisy_machine_is_called_one() -> None:
    samples = [58.8e-6, 158e-6, 61e-6, 120e-6, 90e-6, 75e-6, 140e-6, 66e-6]
    finals = choose({0: samples, 1: [time * 1.02 for time in samples]})
    assert finals.tie and finals.noisy
    assert str(finals).endswith(
        "; the machine is noisy: samples of one program range from 58.8 us to 158 us"
    )


def test_the_incumbent_stays_unless_another_is_shown_to_be_faster() -> None:
    wide = [1e-3 * (1 + 0.02 * (k * 7 % 20)) for k in range(20)]
    near = [time * 0.97 for time in wide]
    assert choose({-1: wide, 0: near}).winner.id == 0, "3% apart: no tie between candidates"
    kept = choose({-1: wide, 0: near}, incumbent=-1)
    assert kept.winner.id == -1 and kept.tie
    assert kept.runner_up is not None and kept.runner_up.id == 0
    far = [time * 0.5 for time in wide]
    assert choose({-1: wide, 0: far}, incumbent=-1).winner.id == 0
    # Too few samples for a p-value, but each is faster.
    assert choose({-1: [2e-3, 2.1e-3], 0: [1e-3, 1.1e-3]}, incumbent=-1).winner.id == 0


def test_no_tie_between_candidates_lets_one_win_that_is_slower_than_the_incumbent() -> None:
    fast = [1e-3 * (1 + 1e-5 * k) for k in range(20)]
    tied = [time + 1e-8 * (-1) ** k for k, time in enumerate(fast)]
    between = [statistics.median(fast) + 1e-9] * 20
    finals = choose({-1: between, 0: tied, 3: fast}, incumbent=-1)
    reference = next(one for one in finals.ranking if one.id == -1)
    assert finals.winner.latency <= reference.latency


def test_who_could_win() -> None:
    fastest = [1e-3 * (1 + 0.001 * k) for k in range(8)]
    assert could_win([1.05e-3, 1.2e-3], fastest)
    assert not could_win([1.2e-3, 1.25e-3], fastest)
    noisy = [1e-3, 1.4e-3, 1.2e-3, 1.3e-3, 1.1e-3]
    assert could_win([1.2e-3, 1.25e-3], noisy)


def test_finals_end_when_the_winner_is_certain() -> None:
    def rounds(*latencies: float) -> int:
        taken: list[int] = []

        def take_round(order: Sequence[int]) -> list[Measurement]:
            taken.append(len(order))
            return [
                Measurement(
                    n, Status.OK, (latencies[n] * (1 + 0.001 * (len(taken) * (n + 3) % 5)),)
                )
                for n in order
            ]

        interleave(range(len(latencies)), take_round)
        return len(taken)

    assert rounds(1e-3, 1.1e-3, 1.2e-3) == 10
    assert rounds(1e-3, 1e-3, 1.2e-3) == 30, "the two fastest cannot be told apart"
    assert rounds(1e-3) == 30


# -- leaders -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schedules() -> list[Schedule]:
    """Four programs that differ."""
    space, workload = sl.default_space("cpu"), sl.workloads.matmul(16, 16, 16)
    found = [space.sample(workload, seed=seed) for seed in range(4)]
    assert len({structural_key(schedule.mod) for schedule in found}) == 4
    return found


def record(
    latency: float, program: int, *, verified: bool = True, status: Status = Status.OK
) -> Record:
    """Of one of four programs."""
    return Record(
        *("w", "w", "t", "c", "{}", status, (latency,), "", verified, "random", 0, 0.0),
        program_key=f"program {program}",
    )


def latencies(leaderboard: Leaderboard) -> list[float]:
    return [leader.record.latency for leader in leaderboard.fastest_first]


def test_the_fastest_are_kept(schedules: list[Schedule]) -> None:
    for order in itertools.permutations(range(4)):
        leaderboard = Leaderboard(2, verified=True)
        for number in order:
            leaderboard.add(record(1.0 + number, number), schedules[number])
        assert latencies(leaderboard) == [1.0, 2.0]
        assert [leader.schedule for leader in leaderboard.fastest_first] == schedules[:2]


def test_a_program_leads_once(schedules: list[Schedule]) -> None:
    leaderboard = Leaderboard(3, verified=True)
    for latency in (3.0, 2.0, 4.0):
        leaderboard.add(record(latency, 0), schedules[0])
    leaderboard.add(record(5.0, 1), schedules[1])
    assert latencies(leaderboard) == [2.0, 5.0]


def test_only_what_was_measured_and_verified_leads(schedules: list[Schedule]) -> None:
    failed = record(1.0, 0, status=Status.SUSPICIOUS_TIME)
    unverified = record(1.0, 1, verified=False)
    for strict in (True, False):
        leaderboard = Leaderboard(3, verified=strict)
        leaderboard.add(failed, schedules[0])
        leaderboard.add(unverified, schedules[1])
        assert len(leaderboard.fastest_first) == (0 if strict else 1)


def finals_of(
    leaderboard: Leaderboard, samples: dict[int, Sequence[float]]
) -> tuple[Finals | None, dict[str, int]]:
    """Hold them with these samples by rank; a rank that is missing fails."""

    def remeasure(candidates: Sequence[Candidate], ready: float) -> list[Measurement]:
        return [
            Measurement(c.id, Status.OK, tuple(samples[c.id]))
            if c.id in samples
            else Measurement(c.id, Status.CRASHED, message="the worker ended")
            for c in candidates
        ]

    finals, failed = leaderboard.hold_finals(remeasure)
    return finals, dict(failed)


def three(schedules: list[Schedule]) -> Leaderboard:
    leaderboard = Leaderboard(3, verified=True)
    for number in range(3):
        leaderboard.add(record(1.0 + number, number), schedules[number])
    return leaderboard


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(math.inf, ([0, 1, 2], 12.0)), (9.0, ([0, 1], 8.0)), (8.0, None)],
)
def test_what_is_slow_to_build_and_verify_needs_time(
    schedules: list[Schedule], seconds: float, expected: tuple[list[int], float] | None
) -> None:
    leaderboard = Leaderboard(3, verified=True)
    for number in range(3):
        leaderboard.add(record(0.1 + 0.001 * number, number), schedules[number], 3.0)
    asked: list[tuple[list[int], float]] = []

    def remeasure(candidates: Sequence[Candidate], ready: float) -> list[Measurement]:
        asked.append(([c.id for c in candidates], ready))
        return [Measurement(c.id, Status.OK, times(0.1)) for c in candidates]

    finals, _ = leaderboard.hold_finals(remeasure, lambda: seconds)
    assert asked == ([] if expected is None else [expected])
    assert (finals is None) == (expected is None)


def test_the_finals_decide_the_order(schedules: list[Schedule]) -> None:
    leaderboard = three(schedules)
    finals, failed = finals_of(leaderboard, {0: times(3.0), 1: times(1.0), 2: times(2.0)})
    assert finals is not None and [f.id for f in finals.ranking] == [1, 2, 0]
    assert latencies(leaderboard) == [2.0, 3.0, 1.0] and failed == {}


def disturbed(
    schedules: list[Schedule], disturbances: Sequence[Disturbance], *, size: int
) -> Leaderboard:
    """Programs of 1, 2, 3, ... s, with what other work did to their samples."""
    leaderboard = Leaderboard(size, verified=True)
    for number, disturbance in enumerate(disturbances):
        one = record(1.0 + number, number)
        samples = one.samples * FEWEST_SAMPLES
        one = dataclasses.replace(one, samples=samples, disturbance=disturbance)
        leaderboard.add(one, schedules[number])
    return leaderboard


def test_an_uncertain_latency_is_timed_again(schedules: list[Schedule]) -> None:
    """What other work disturbed may be faster than its samples, and its lead may be none."""
    certain = Disturbance(9, 0, 1.0, 1.0)
    cases = {
        # A second that is far slower takes part where it could be as fast.
        (certain, Disturbance(1, 9, 0.5, 2.0)): 2,
        (certain, Disturbance(1, 9, 1.9, 2.0)): 1,
        (certain, Disturbance(3, 9, 2.0, 2.0)): 1,
        # A first that is uncertain is timed again, and others with it.
        (Disturbance(1, 9, 0.5, 1.0), certain): 2,
    }
    for disturbances, taking_part in cases.items():
        leaderboard = disturbed(schedules, disturbances, size=2)
        finals, _ = finals_of(leaderboard, {0: [1.0] * 9, 1: [2.0] * 9})
        assert finals is not None and len(finals.ranking) == taking_part


def test_programs_in_doubt_take_part_beyond_the_number_of_leaders(
    schedules: list[Schedule],
) -> None:
    """As many again: those that could be fastest."""
    certain = Disturbance(9, 0, 1.0, 1.0)
    first = [certain, Disturbance(1, 9, 0.5, 2.0)]
    cases = {
        (*first, Disturbance(1, 9, 0.4, 3.0)): [0, 2],
        (*first, Disturbance(1, 9, 0.6, 3.0)): [0, 1],
        (*first, Disturbance(4, 9, 3.0, 3.0)): [0, 1],
        (certain, certain, Disturbance(1, 9, 1.5, 3.0)): [0],
    }
    for disturbances, expected in cases.items():
        leaderboard = disturbed(schedules, disturbances, size=1)
        assert latencies(leaderboard) == [1.0 + number for number in expected]
        finals, _ = finals_of(leaderboard, {0: [1.0] * 9, 1: [2.0] * 9})
        assert finals is not None and len(finals.ranking) == len(expected)


def test_who_fails_in_the_finals_leads_no_more(schedules: list[Schedule]) -> None:
    leaderboard = three(schedules)
    finals, failed = finals_of(leaderboard, {2: times(2.0), 1: times(3.0)})
    assert finals is not None and finals.winner.id == 2
    assert latencies(leaderboard) == [3.0, 2.0] and failed == {"crashed": 1}
    assert finals_of(leaderboard, {}) == (None, {"crashed": 2})
    assert latencies(leaderboard) == []


# -- the result of a run -------------------------------------------------------------------------


WORKLOAD = sl.workloads.matmul(32, 32, 32)


class Near:
    """Candidates that differ by some percent, and an unscheduled program that is far slower."""

    reference_latency = 1e-3

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for candidate in candidates:
            samples = tuple(1e-5 * (1 + candidate.id / 100 + n / 1000) for n in range(8))
            yield Measurement(candidate.id, Status.OK, samples, verified=True)


def test_a_run_ends_with_finals() -> None:
    result = sl.tune(WORKLOAD, trials=6, finals=3, measurer=Near(), search="random")
    best = result.best
    assert best.finals is not None and len(best.finals.ranking) == 3 and best.finals.held
    assert best.latency == best.finals.winner.latency
    assert best.confidence_interval == best.finals.winner.interval
    assert best.p_value == best.finals.p_value
    assert best.runner_up in result.records and best.runner_up != best.record
    assert {len(finalist.samples) for finalist in best.finals.ranking} != {0}
    assert str(result).splitlines()[-2] == f"  finals      {best.finals}"


def test_finals_can_be_left_out() -> None:
    result = sl.tune(WORKLOAD, trials=3, finals=0, measurer=Near(), search="random")
    best = result.best
    assert best.finals is best.confidence_interval is best.p_value is best.runner_up is None
    assert best.latency == best.record.latency == min(r.latency for r in result.records if r.ok)
    assert "finals" not in str(result)
    with pytest.raises(ValueError, match="finals=-1"):
        sl.tune(sl.workloads.matmul(8, 8, 8), finals=-1)


@pytest.mark.parametrize(
    ("factor", "about", "said"),
    [
        (1.0, {}, "as fast within the noise (p = 1)"),
        (1.05, {}, "5.0% slower (p = 0.00018), but measured at different times: up to 10% may be"),
        (0.95, {"in_turns": True}, "5.0% faster (p = 0.00018), timed in turns"),
        (1.5, {}, "1.5x the time (p = 0.00018): more than noise"),
        (1.5, {"same_program": True}, "the same program, so a difference of 50.0% is noise"),
    ],
)
def test_one_verdict_in_words(factor: float, about: dict[str, bool], said: str) -> None:
    times = [1e-3 + 1e-6 * k for k in range(10)]
    found = verdict([factor * one for one in times], times, **about)
    assert str(found).startswith(said) and found.ratio == pytest.approx(factor)
    assert found.noise is (found.same_program or is_noise(found.p_value))


def test_too_few_samples_give_no_verdict() -> None:
    found = verdict([2e-3], [1e-3] * 10)
    assert found.p_value is None and not found.noise
    said = "the second takes 2x the time; cannot be told from noise: one has only 1 sample"
    assert found.about("the second") == said
    assert within_drift(1.1) and within_drift(1 / 1.1) and not within_drift(1.11)
