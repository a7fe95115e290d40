"""The objectives of Ansor's Table 2, and a user's own."""

from __future__ import annotations

import math

import pytest

from schedlang.search.tasks import (
    GradientScheduler,
    Objective,
    ObjectiveError,
    Requirements,
    Speedup,
    TaskProgress,
    TotalLatency,
    UserObjective,
)


def tuned(weights: tuple[float, ...], latency: float, default: float = math.nan) -> TaskProgress:
    return TaskProgress(weights, trials=8, latencies=((8, latency),), default=default)


# Two networks: 2*1 + 1*3 = 5 s, before 2*4 + 1*12 = 20 s; and 4*3 = 12 s, before 48 s.
TASKS = [tuned((2, 0), 1.0, 4.0), tuned((1, 4), 3.0, 12.0)]


def test_costs() -> None:
    assert TotalLatency().cost(TASKS) == 17.0
    assert Requirements([6.0, 10.0]).cost(TASKS) == 18.0
    assert Speedup().cost(TASKS) == pytest.approx(-4.0)
    assert UserObjective(max).cost(TASKS) == 12.0


def test_slopes() -> None:
    assert TotalLatency().slopes(TASKS) == [2.0, 5.0]
    assert Requirements([6.0, 10.0]).slopes(TASKS) == [0.0, 4.0]
    assert Speedup().slopes(TASKS) == pytest.approx([2 / 5 / 2, (1 / 5 + 4 / 12) / 2])
    assert UserObjective(max).slopes(TASKS) == pytest.approx([0.0, 4.0])
    assert UserObjective(lambda x: x[0] ** 2).slopes(TASKS) == pytest.approx([20.0, 10.0])


@pytest.mark.parametrize("objective", [TotalLatency(), Requirements([1.0, 1.0]), Speedup()])
def test_slopes_are_the_derivatives_of_the_cost(objective: Objective) -> None:
    """Up to one factor, which no scheduler needs."""
    step = 1e-6
    ratios = []
    for moved, slope in enumerate(objective.slopes(TASKS)):
        after = [
            tuned(task.weights, task.latency - step * (i == moved), task.default)
            for i, task in enumerate(TASKS)
        ]
        ratios.append((objective.cost(TASKS) - objective.cost(after)) / step / slope)
    assert ratios[0] > 0.0 and ratios == pytest.approx([ratios[0]] * 2, rel=1e-4)


@pytest.mark.parametrize(
    "objective", [TotalLatency(), Requirements([1.0, 1.0]), Speedup(), UserObjective(sum)]
)
def test_costs_of_unknown_latencies_are_unknown(objective: Objective) -> None:
    progress = [*TASKS, TaskProgress((0, 1))]
    assert math.isnan(objective.cost(progress))
    assert objective.slopes(progress)[2] > 0.0


def test_networks_that_are_equally_slow_are_both_worth_trials() -> None:
    both = [tuned((1, 0), 2.0), tuned((0, 1), 2.0)]
    assert UserObjective(max).slopes(both) == pytest.approx([0.5, 0.5])


def test_the_reference_of_an_unknown_default_is_what_came_first() -> None:
    task = TaskProgress((1,), trials=16, latencies=((8, 6.0), (16, 2.0)))
    assert Speedup().cost([task]) == pytest.approx(-3.0)


def test_a_mean_of_speedups_weighs_short_networks_as_long_ones() -> None:
    progress = [tuned((1, 0), 1e-3), tuned((0, 1), 1.0), tuned((0, 1), 0.5)]
    assert GradientScheduler(TotalLatency(), epsilon=0.0).next(progress) == 1
    assert GradientScheduler(Speedup(), epsilon=0.0).next(progress) == 0


def broken(latencies: tuple[float, ...]) -> float:
    raise KeyError("weight")


def test_what_is_wrong_with_a_function_is_told() -> None:
    with pytest.raises(ObjectiveError, match=r"broken\(\(5.*raised KeyError: 'weight'"):
        UserObjective(broken).slopes(TASKS)
    for value, message in (
        (math.nan, "returned nan; return a finite number"),
        (math.inf, "returned inf"),
        ("fast", "returned 'fast'; return a number"),
        (None, "returned None; return a number"),
    ):
        with pytest.raises(ObjectiveError, match=message):
            UserObjective(lambda _, value=value: value).slopes(TASKS)  # type: ignore[misc]
    with pytest.raises(ObjectiveError, match="rises when a latency falls; return a cost"):
        UserObjective(lambda latencies: 1.0 / latencies[0]).slopes(TASKS)


def test_a_function_that_is_satisfied_ends_the_tuning() -> None:
    assert GradientScheduler(UserObjective(lambda x: max(x[0], 9.0))).next(TASKS) is None
    assert GradientScheduler(UserObjective(lambda x: max(x[1], 9.0))).next(TASKS) == 1
