"""The t-test that says which of two programs is faster."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from scipy.stats import ttest_1samp, ttest_ind

from schedlang.measurement import Measurement, Status
from schedlang.measurement.disturbance import Disturbance
from schedlang.search.coordinate_models import p_value, surely_faster

FAILURES = [status for status in Status if status is not Status.OK]


def measured(*samples: float, status: Status = Status.OK) -> Measurement:
    return Measurement(0, status, samples)


@pytest.mark.parametrize("counts", [(3, 3), (2, 9), (30, 5)], ids=str)
@pytest.mark.parametrize("spread", [0.01, 0.3])
def test_the_p_value_is_that_of_welchs_test(counts: tuple[int, int], spread: float) -> None:
    rng = random.Random(1)
    one, other = ([rng.gauss(1 + n / 90, spread) for _ in range(n)] for n in counts)
    expected = ttest_ind(one, other, equal_var=False, alternative="less").pvalue
    assert p_value(one, other) == pytest.approx(expected, rel=1e-9)
    assert p_value(other, one) == pytest.approx(1 - expected, rel=1e-9)


def test_a_single_sample_is_compared_with_the_spread_of_the_other() -> None:
    others = [1.0, 1.1, 0.9, 1.05]
    expected = ttest_ind([2.0], others, alternative="greater").pvalue
    assert p_value(others, [2.0]) == pytest.approx(expected, rel=1e-9)
    assert p_value(others, [1.1]) > 0.2
    assert ttest_1samp(others, 2.0, alternative="less").pvalue < expected  # it has noise too


@pytest.mark.parametrize(
    ("one", "other"), [([1.0], [2.0]), ([1.0, 1.0], [2.0, 2.0]), ([1.0], [2.0, 2.0, 2.0])], ids=str
)
def test_without_noise_the_lower_one_is_faster(one: list[float], other: list[float]) -> None:
    assert p_value(one, other) == 0.0
    assert p_value(other, one) == 1.0
    assert p_value(one, one) == 1.0


def test_noise_on_one_side_alone_is_enough_for_a_test() -> None:
    steady, noisy = [1.0, 1.0, 1.0], [1.1, 0.9, 1.3]
    expected = ttest_1samp(noisy, 1.0, alternative="greater").pvalue
    assert p_value(steady, noisy) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("status", FAILURES, ids=str)
def test_what_failed_is_slower_than_all_that_did_not(status: Status) -> None:
    worked, failed = measured(9.0, 9.1), measured(1.0, 1.0, status=status)
    assert surely_faster(worked, failed, 0.05)
    assert not surely_faster(failed, worked, 0.05)
    assert not surely_faster(failed, failed, 0.05)


def test_the_level_decides() -> None:
    one, other = measured(1.0, 1.2, 0.9), measured(1.2, 1.3, 1.1)
    p = p_value(one.samples, other.samples)
    assert 0.05 < p < 0.2
    assert surely_faster(one, other, 0.2) and not surely_faster(one, other, 0.05)


def test_where_other_work_leaves_doubt_the_bounds_decide() -> None:
    one = replace(measured(0.9), disturbance=Disturbance(1, 9, 0.5, 0.9))
    steady = replace(measured(1.0, 1.1, 1.0), disturbance=Disturbance(3, 9, 1.0, 1.1))
    unknown = measured(1.0, 1.0, 1.1)
    for other in (steady, unknown):
        assert surely_faster(one, other, 0.05) and not surely_faster(other, one, 0.05)
    near = replace(measured(1.05), disturbance=Disturbance(0, 9, 0.7, 1.05))
    for other in (one, steady, unknown):
        assert not surely_faster(near, other, 0.05) and not surely_faster(other, near, 0.05)


def test_equal_programs_are_called_different_as_often_as_the_level_says() -> None:
    """400 comparisons of five samples each: Binomial(400, 0.05) is within 4 and 40 but for 3e-5."""
    rng = random.Random(0)
    found = 0
    for _ in range(400):
        one, other = (measured(*(rng.gauss(1.0, 0.1) for _ in range(5))) for _ in range(2))
        found += surely_faster(one, other, 0.05)
    assert 4 <= found <= 40
