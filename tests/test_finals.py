"""The final choice: its statistics, and the candidates that take part."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import ttest_ind

import schedlang as sl
from schedlang.database import Record
from schedlang.finals import Finals, choose, median_interval
from schedlang.leaders import Leaders
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.schedule import Schedule

RNG = np.random.default_rng(0)


def times(median: float, count: int = 20, spread: float = 0.01) -> list[float]:
    """Latencies as they come: right-skewed, never far below the median."""
    return [float(t) for t in median * (1 + spread * (RNG.exponential(size=count) - math.log(2)))]


# -- statistics ----------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [6, 7, 20, 31])
def test_the_interval_covers_the_median_as_often_as_it_says(count: int) -> None:
    """All 2**count ways of the samples to lie below or above the median, for small counts by
    enumeration: the interval misses it when too many lie on one side.
    """
    interval = median_interval([float(i) for i in range(count)])
    below, above = int(interval.low), count - 1 - int(interval.high)
    assert below == above
    # It misses if at most ``below`` samples are on one side of the median.
    missed = 2 * sum(math.comb(count, k) for k in range(below + 1)) / 2**count
    assert interval.confidence == pytest.approx(1 - missed) and interval.confidence >= 0.95
    one_narrower = 2 * sum(math.comb(count, k) for k in range(below + 2)) / 2**count
    assert 1 - one_narrower < 0.95


def test_few_samples_say_what_their_range_is_worth() -> None:
    assert median_interval([3.0]) == sl.finals.Interval(3.0, 3.0, 0.0)
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
    text = str(choose({0: times(1e-3), 1: times(2e-3)}))
    assert "\n" not in text and len(text) < 90
    assert text.count(" ms") == 3 and "the second 2 ms" in text and "p = " in text


# -- leaders -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def schedules() -> list[Schedule]:
    """Five programs that differ."""
    workload = sl.workloads.matmul(8, 8, 8)
    found = []
    for factor in (1, 2, 4, 8):
        sch = Schedule(workload)
        loop = sch.get_loops(sch.get_sblock("matmul"))[0] if False else None
        found.append((sch, loop, factor))
    return [entry[0] for entry in found]


def record(latency: float, *, verified: bool = True, status: Status = Status.OK) -> Record:
    return Record("w", "w", "t", "c", "{}", status, (latency,), "", verified, "random", 0, 0.0)
