"""What is read from the history of a task."""

from __future__ import annotations

import math
from typing import Any

import pytest

from schedlang.search.task_objective import estimated_latencies
from schedlang.search.tasks import TaskProgress, network_latencies

NAN, INF = math.nan, math.inf


def task(*latencies: tuple[int, float], **others: Any) -> TaskProgress:
    trials = latencies[-1][0] if latencies else 0
    return TaskProgress(**{"weights": (1,), "trials": trials, "latencies": latencies, **others})


def test_the_program_without_tuning_is_a_contender() -> None:
    assert task((8, 3.0), default=2.0).latency == 2.0
    assert task((8, 3.0), (16, 1.0), default=2.0).latency == 1.0
    assert task((8, INF), default=2.0).latency == 2.0


@pytest.mark.parametrize("failed", [NAN, INF])
def test_a_task_without_a_success_is_unknown(failed: float) -> None:
    assert not task((8, failed)).known and not task(default=failed).known
    (_, start), (_, first), last = task((8, failed), (16, 1.0)).history
    assert math.isnan(start) and math.isnan(first) and last == (16, 1.0)
    assert math.isnan(network_latencies([task((8, failed)), task((8, 1.0))])[0])


def test_only_gains_above_the_noise_count() -> None:
    assert task((8, 1.0), (16, 0.995)).trials_without_gain == 8
    assert task((8, 1.0), (16, 0.9)).trials_without_gain == 0
    # Small gains that add up are one.
    assert task((8, 1.0), (16, 0.995), (24, 0.985), (32, 0.984)).trials_without_gain == 8


def test_a_first_success_is_a_gain_and_what_the_default_beats_is_none() -> None:
    assert task((8, NAN), (16, 1.0)).trials_without_gain == 0
    assert task((8, NAN), (16, INF)).trials_without_gain == 16
    assert task((8, 1.0), (16, 0.9), default=0.5).trials_without_gain == 16


def test_unknown_latencies_are_estimated_by_the_slowest_kin() -> None:
    known = [
        task((8, 1.0), flops=10.0, kin="a"),
        task((8, 4.0), flops=20.0, kin="a"),
        task((8, 9.0), flops=9.0, kin="b"),
    ]
    unknown = [task(flops=30.0, kin="a"), task(flops=30.0, kin="c"), task(kin="a")]
    assert estimated_latencies(known + unknown) == [1.0, 4.0, 9.0, 6.0, 30.0, 4.0]
    assert estimated_latencies(unknown) == [30.0, 30.0, 1.0]


def test_latencies_of_networks_are_weighted_sums() -> None:
    both = [task((8, 2.0), weights=(3, 0)), task((8, 1.0), weights=(1, 2))]
    assert network_latencies(both) == (7.0, 2.0)
    # A task of another network may be unknown.
    assert network_latencies([task(weights=(0, 1)), both[0]])[0] == 6.0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"weights": ()}, "number of calls in each network"),
        ({"weights": (1, -1)}, "-1 is not a number of calls"),
        ({"weights": (NAN,)}, "nan is not a number of calls"),
        ({"flops": -1.0}, "flops=-1.0"),
        ({"trials": 8, "latencies": ((8, 1.0), (4, 1.0))}, "4 trials after 8"),
        ({"trials": 8, "latencies": ((16, 1.0),)}, "16 trials after 0, of trials=8"),
        ({"trials": 8, "latencies": ((8, -1.0),)}, "a latency of -1.0"),
        ({"default": -1.0}, "default: a latency of -1.0"),
    ],
)
def test_wrong_values_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TaskProgress(**{"weights": (1,), **wrong})
