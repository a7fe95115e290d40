"""Measures of ranking: against their definitions, and what no order of programs may change."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from schedlang.search.surrogate import pairwise_accuracy, recall_at

latencies = st.lists(
    st.none() | st.integers(1, 400).map(lambda n: 1.1**n * 1e-6), min_size=2, max_size=20
)
"""Any two are equal, or more than 1% apart."""


def scores_for(draw: st.DataObject, times: list[float | None]) -> list[float]:
    count = len(times)
    return draw.draw(st.lists(st.integers(-3, 3).map(float), min_size=count, max_size=count))


@given(latencies, st.data())
def test_pairwise_accuracy_is_its_definition(
    times: list[float | None], data: st.DataObject
) -> None:
    scores = scores_for(data, times)
    right = total = 0.0
    for (one, first), (other, second) in itertools.combinations(zip(scores, times, strict=True), 2):
        if first == second:
            continue
        faster_first = (first or math.inf) < (second or math.inf)
        total += 1
        right += 0.5 if one == other else float((one > other) == faster_first)
    found = pairwise_accuracy(scores, times)
    assert found == (None if total == 0 else pytest.approx(right / total))


@given(latencies, st.data())
def test_scores_turned_round_are_as_wrong_as_they_were_right(
    times: list[float | None], data: st.DataObject
) -> None:
    scores = scores_for(data, times)
    found, turned = pairwise_accuracy(scores, times), pairwise_accuracy(-np.array(scores), times)
    assert (found is None) == (turned is None)
    if found is not None and turned is not None:
        assert found + turned == pytest.approx(1)


@given(latencies, st.data())
def test_only_the_order_of_the_scores_counts(
    times: list[float | None], data: st.DataObject
) -> None:
    scores = np.array(scores_for(data, times))
    assert pairwise_accuracy(np.exp(scores), times) == pairwise_accuracy(scores, times)
    for k in range(1, len(times) + 1):
        assert recall_at(k, np.exp(scores), times) == recall_at(k, scores, times)


@given(latencies)
def test_a_perfect_model(times: list[float | None]) -> None:
    scores = [0.0 if time is None else 1 / time for time in times]
    assert pairwise_accuracy(scores, times) in (None, 1.0)
    working = sum(time is not None for time in times)
    for k in range(1, len(times) + 1):
        assert recall_at(k, scores, times) == (1.0 if k <= working else None)


def test_recall_counts_those_among_the_fastest() -> None:
    times = [4.0, 3.0, 2.0, 1.0, None]
    assert recall_at(2, [0, 0, 2, 1, 0], times) == 1.0
    assert recall_at(2, [3, 0, 2, 1, 0], times) == 0.5
    assert recall_at(2, [3, 0, 0, 0, 4], times) == 0.0
    assert recall_at(4, [0, 0, 0, 0, 1], times) == 0.75
    assert recall_at(5, [0, 0, 0, 0, 1], times) is None


def test_what_is_within_one_percent_is_equal() -> None:
    assert pairwise_accuracy([1, 0], [1.005, 1.0]) is None
    assert pairwise_accuracy([1, 0], [1.02, 1.0]) == 0.0
    assert recall_at(1, [1, 0], [1.005, 1.0]) == 1.0
    assert recall_at(1, [1, 0], [1.02, 1.0]) == 0.0


def test_failures_are_slower_than_all_that_work() -> None:
    assert pairwise_accuracy([1, 0], [None, 1e9]) == 0.0
    assert pairwise_accuracy([0, 1], [None, 1e9]) == 1.0
    assert pairwise_accuracy([0, 1], [None, None]) is None


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="2 scores for 3 programs"):
        pairwise_accuracy([1, 2], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="k must be at least 1"):
        recall_at(0, [1.0], [1.0])
