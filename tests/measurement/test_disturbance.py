"""What is said of disturbed samples."""

from __future__ import annotations

import math

import pytest

from schedlang.measurement.disturbance import (
    Disturbance,
    RunDisturbance,
    Sample,
    counting,
    disturbance_of,
)

QUIET, BUSY, UNKNOWN = Sample(1.0, 0.0), Sample(9.0, 8.5), Sample(3.0)


def test_a_sample_is_judged_by_the_part_that_was_waited() -> None:
    assert [Sample(1.0, waited).disturbed for waited in (0.0, 0.019, 0.021, 5.0)] == [
        False,
        False,
        True,
        True,
    ]
    assert Sample(1.0).disturbed is None


def test_the_least_time_is_without_all_waiting_and_never_negative() -> None:
    assert BUSY.least == 0.5 and Sample(1.0, 1.7).least == 0.0 and UNKNOWN.least == 3.0


def test_disturbed_samples_count_only_where_there_are_no_others() -> None:
    assert counting([BUSY, QUIET, UNKNOWN]) == (1.0, 3.0)
    assert counting([BUSY, Sample(7.0, 6.0)]) == (7.0,)


def test_few_samples_that_nothing_disturbed_are_certain() -> None:
    found = disturbance_of([QUIET])
    assert found == Disturbance(1, 0, 1.0, 1.0) and found.settled


def test_two_quiet_ones_of_many_are_uncertain() -> None:
    found = disturbance_of([QUIET, QUIET, BUSY, BUSY])
    assert found == Disturbance(2, 2, 0.75, 1.0) and not found.settled


def test_three_quiet_ones_are_certain_whatever_the_others_are() -> None:
    found = disturbance_of([QUIET, Sample(1.2, 0.0), QUIET, *[BUSY] * 20, UNKNOWN])
    assert found == Disturbance(3, 20, 1.0, 1.2) and found.settled


def test_a_latency_counts_less_the_less_is_known_of_it() -> None:
    assert Disturbance(3, 20, 1.0, 1.2).trust == 1.0
    assert Disturbance(2, 20, 0.9, 1.2).trust == pytest.approx(0.75)
    for high in (0.0, 1.2):
        assert 0 < Disturbance(0, 20, 0.0, high).trust < 0.1


def test_of_a_run_all_is_added_up() -> None:
    found = RunDisturbance.of(
        [
            Disturbance(5, 0, 1.0, 1.0),
            None,
            Disturbance(1, 9, 0.0, 1.0),
            Disturbance(4, 1, 1.0, 1.1),
        ]
    )
    assert found == RunDisturbance(samples=20, disturbed=10, repeated=1, latencies=3, uncertain=1)
    assert found.share == 0.5 and found.busy
    assert str(found) == (
        "50% of 20 samples disturbed by other work, 1 repeated; 1 of 3 latencies are uncertain"
    )


def test_where_nothing_is_known_nothing_is_claimed() -> None:
    found = RunDisturbance.of([None, None])
    assert math.isnan(found.share) and not found.busy
    assert str(found) == "it is not known what other work did"


@pytest.mark.parametrize("wrong", [(-1, 0, 0.0, 1.0), (0, 1, math.nan, 1.0), (0, 1, 2.0, 1.0)])
def test_a_wrong_disturbance_is_refused(wrong: tuple[int, int, float, float]) -> None:
    with pytest.raises(ValueError, match="give numbers"):
        Disturbance(*wrong)


def test_where_known_work_was_slow_samples_have_the_same_bounds() -> None:
    slow = UNKNOWN.slowed(2.0)
    assert slow.disturbed and slow.least == pytest.approx(UNKNOWN.seconds / 2)
    assert BUSY.slowed(1.01).waited == BUSY.waited
    assert QUIET.slowed(math.inf).least == 0
    assert UNKNOWN.judged_quiet().disturbed is False and BUSY.judged_quiet() == BUSY
    assert Disturbance(5, 2, 1.0, 1.1).slowed(2.0) == Disturbance(0, 7, 0.5, 1.1)
