"""Scores of searches against random search that is computed exactly."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import schedlang as sl
from schedlang.lab.simulation import (
    baseline_of,
    best_so_far,
    expected_minimum,
    regret,
    score,
)

FAILED = math.inf
LATENCIES = [1.0 + (number * 37 % 101) / 10 for number in range(60)] + [FAILED] * 10


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.floats(0.1, 10.0), min_size=1, max_size=9))
def test_the_expected_minimum_is_that_over_all_subsets(values: list[float]) -> None:
    found = expected_minimum(np.sort(np.array(values)))
    assert len(found) == len(values)
    for count in range(1, len(values) + 1):
        subsets = itertools.combinations(values, count)
        assert found[count - 1] == pytest.approx(statistics.mean(map(min, subsets)), rel=1e-9)


def test_the_expected_minimum_of_many_stays_in_bounds() -> None:
    values = np.sort(np.random.default_rng(0).lognormal(size=5000))
    found = expected_minimum(values)
    assert found[0] == pytest.approx(values.mean()) and found[-1] == pytest.approx(values[0])
    assert (np.diff(found) <= 1e-12).all() and (found >= values[0] * (1 - 1e-12)).all()


def test_the_budget_is_where_random_search_has_come_most_of_the_way() -> None:
    base = baseline_of(LATENCIES)
    working = [one for one in LATENCIES if one < FAILED]
    assert (base.optimum, base.median) == (min(working), statistics.median(working))
    wanted = base.median - 0.95 * (base.median - base.optimum)
    assert base.curve[base.budget - 1] <= wanted < base.curve[base.budget - 2]
    assert baseline_of(LATENCIES, cut_off=0.5).budget < base.budget
    assert len(base.curve) == len(LATENCIES)


def test_random_search_scores_zero() -> None:
    """Scores of single runs spread by 0.74; the mean of 2,000 is off by 5 standard errors at most.

    That fails once in 10^6 seeds.
    """
    rng = random.Random(0)
    base = baseline_of(LATENCIES)
    runs = [rng.sample(LATENCIES, len(LATENCIES)) for _ in range(2000)]
    assert abs(score(runs, LATENCIES)) < 5 * 0.8 / math.sqrt(2000)
    singles = [score([run], LATENCIES, base) for run in runs]
    assert statistics.mean(singles) == pytest.approx(score(runs, LATENCIES, base))
    assert 0.3 < statistics.stdev(singles) < 0.8


def test_an_oracle_scores_one_and_the_worst_less_than_nothing() -> None:
    ordered = sorted(LATENCIES)
    assert score([ordered], LATENCIES) == pytest.approx(1.0)
    assert score([ordered[:1]], LATENCIES) == pytest.approx(1.0), "a short run stands at its best"
    worst = score([ordered[::-1]], LATENCIES)
    assert worst < -1.0
    assert score([[]], LATENCIES) == pytest.approx(worst, rel=0.3)
    assert worst < score([ordered, ordered[::-1]], LATENCIES) < 1.0


def test_a_search_that_only_fails_stands_at_the_slowest() -> None:
    failed = score([[FAILED] * 100], LATENCIES)
    slowest = max(one for one in LATENCIES if one < FAILED)
    assert failed == score([[slowest] * 100], LATENCIES) == score([[]], LATENCIES)
    assert list(best_so_far([FAILED, 3.0, FAILED, 2.0, 4.0], 9.0)) == [9.0, 3.0, 3.0, 2.0, 2.0]


def test_spaces_where_there_is_nothing_to_find() -> None:
    for known in ([2.0], [2.0] * 5, [2.0, FAILED]):
        assert score([known, []], known) == pytest.approx(0.0, abs=1e-9)
        assert baseline_of(known).optimum == 2.0
    for hopeless in ([], [FAILED], [FAILED] * 3, [math.nan]):
        with pytest.raises(sl.RecordingError, match="no program of the space works"):
            baseline_of(hopeless)


def test_wrong_arguments() -> None:
    with pytest.raises(ValueError, match="no runs to score"):
        score([], LATENCIES)
    for cut_off in (0.0, 1.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="cut_off="):
            baseline_of(LATENCIES, cut_off)


def test_regret_is_the_slowdown_against_the_optimum() -> None:
    assert regret([3.0, FAILED, 2.0], 2.0, 2) == 0.5
    assert regret([3.0, FAILED, 2.0], 2.0, 3) == 0.0
    assert regret([FAILED], 2.0, 5) == regret([], 2.0, 5) == math.inf
