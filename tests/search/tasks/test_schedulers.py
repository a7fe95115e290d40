"""What the schedulers do with known learning curves."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from statistics import geometric_mean

import pytest

from schedlang.search.tasks import (
    SCHEDULERS,
    EqualSplit,
    GradientScheduler,
    Requirements,
    RoundRobin,
    Speedup,
    TaskProgress,
    TotalLatency,
    make_scheduler,
)
from tests.search.tasks.learning_curves import SLICE, network, tune

TASKS = 24
TRIALS = 96 * TASKS


def task(*latencies: tuple[int, float], weight: float = 1.0, **others: object) -> TaskProgress:
    trials = latencies[-1][0] if latencies else 0
    return TaskProgress((weight,), trials=trials, latencies=latencies, **others)  # type: ignore[arg-type]


def gradient(**settings: float) -> GradientScheduler:
    return GradientScheduler(**{"epsilon": 0.0, **settings})  # type: ignore[arg-type]


# -- the whole ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_gradient_beats_equal_split(seed: int) -> None:
    curves = network(seed, TASKS)
    for objective in (TotalLatency(), Speedup()):
        _, ours, _ = tune(curves, GradientScheduler(objective, seed=seed), TRIALS)
        _, equal, _ = tune(curves, EqualSplit(objective), TRIALS)
        assert ours[-1][0] == equal[-1][0] == TRIALS
        assert ours[-1][1] < equal[-1][1]


def test_half_of_the_trials_come_within_five_percent() -> None:
    """Of what equal split reaches with all: the geometric mean of six networks."""
    ratios = []
    for seed in range(6):
        curves = network(seed, TASKS)
        _, equal, _ = tune(curves, EqualSplit(), TRIALS)
        _, half, _ = tune(curves, GradientScheduler(seed=seed), TRIALS // 2)
        ratios.append(half[-1][1] / equal[-1][1])
    assert geometric_mean(ratios) < 1.05


@pytest.mark.parametrize("name", SCHEDULERS)
def test_a_scheduler_that_starts_later_goes_on_in_the_same_way(name: str) -> None:
    curves = network(0)
    order, _, _ = tune(curves, make_scheduler(name), TRIALS)  # type: ignore[arg-type]
    for trials in (SLICE, 20 * SLICE, 40 * SLICE):
        before, _, progress = tune(curves, make_scheduler(name), trials)  # type: ignore[arg-type]
        assert before == order[: len(before)]
        assert make_scheduler(name).next(progress) == order[len(before)]


def test_equal_split_counts_trials_and_round_robin_slices() -> None:
    progress = [task((8, 1.0), (16, 1.0)), task((32, 1.0))]
    assert EqualSplit().next(progress) == 0
    assert RoundRobin().next(progress) == 1
    _, _, after = tune(network(1), EqualSplit(), TRIALS)
    counts = [p.trials for p in after if p.most is None]
    assert max(counts) - min(counts) <= SLICE


# -- the first slices --------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEDULERS)
def test_the_heaviest_tasks_are_tried_first(name: str) -> None:
    progress = [
        task(default=1e-3),
        task(default=1e-3, weight=5.0),
        task(flops=1e6, kin="a", default=2e-3),
        task(flops=9e6, kin="a"),  # estimated by its kin: 18 ms
        task(default=1.0, weight=0.0),
    ]
    order = []
    while len(order) < 4:
        chosen = make_scheduler(name).next(progress)
        assert chosen is not None
        order.append(chosen)
        progress[chosen] = replace(progress[chosen], trials=16, latencies=((16, math.inf),))
    assert order == [3, 1, 2, 0]


def test_without_anything_to_do_nobody_is_next() -> None:
    for scheduler in (GradientScheduler(), RoundRobin(), EqualSplit()):
        assert scheduler.next([]) is None
        assert scheduler.next([task(finished=True), task(most=0), task(weight=0.0)]) is None
        assert scheduler.next([task((2, 1.0), most=2)]) is None
        assert scheduler.next([task((2, math.nan))]) == 0


# -- the gradient ------------------------------------------------------------------------------


def test_the_optimistic_guess_prefers_what_is_slow_and_little_tried() -> None:
    assert gradient(alpha=0.0).next([task((16, 1.0)), task((16, 2.0))]) == 1
    assert gradient(alpha=0.0).next([task((16, 1.0)), task((16, 2.0), (48, 2.0))]) == 0
    assert gradient(alpha=0.0).next([task((16, 1.0), weight=5.0), task((16, 2.0))]) == 0


def test_the_past_is_a_difference_over_the_window() -> None:
    falling = task((16, 4.0), (32, 3.0), (48, 2.0), (64, 1.99))  # 2.01 in three slices
    stopped = task((16, 9.0), (32, 2.0), (48, 2.0), (64, 2.0))  # 7 in three, 0 in two
    assert gradient(alpha=1.0).next([falling, stopped]) == 1
    assert gradient(alpha=1.0, window=2).next([falling, stopped]) == 0
    # What the first slice gained over no tuning at all says nothing.
    assert gradient(alpha=1.0).next([task((16, 1.0), default=90.0), task((8, 3.0), (16, 2.9))]) == 1


def test_a_task_far_behind_its_kin_is_next() -> None:
    others = [task((16, 1.0), flops=1e9, kin="conv"), task((16, 8.0))]
    behind = task((64, 7.0), flops=1e9, kin="conv")
    # Optimistic: 1/16, 8/16, 7/64 a trial; at twice the latency of its kin: (7 - 2)/64.
    assert gradient(alpha=0.0).next([*others, behind]) == 1
    short = task((60, 7.5), (64, 7.0), flops=1e9, kin="conv")
    assert gradient(alpha=0.0).next([*others, short]) == 2  # (7 - 2)/4 a trial
    assert gradient(alpha=0.0, beta=7.0).next([*others, short]) == 1
    assert gradient(alpha=0.0).next([*others, replace(short, kin="pool")]) == 1


def test_a_task_that_cannot_reach_its_kin_makes_way() -> None:
    others = [task((16, 1.0), flops=1e9, kin="conv"), task((16, 2.5))]
    for slices, chosen in ((1, 2), (2, 2), (3, 1)):
        # (9 - 2)/16 a trial at first; the other one's guess is 2.5/16.
        stuck = task(*((16 * n, 9.0) for n in range(1, slices + 1)), flops=1e9, kin="conv")
        assert gradient(alpha=0.0, optimism=0.0).next([*others, stuck]) == chosen, slices


def test_a_heavy_task_that_has_converged_makes_way() -> None:
    light = task((16, 2.0), (32, 1.0))
    converged = task((16, 4.0), (32, 4.0))
    for optimism, chosen in ((1.0, 1), (0.5, 1), (0.2, 0)):
        # 1/32 a trial against optimism * 4/32.
        assert gradient(alpha=0.0, optimism=optimism).next([light, converged]) == chosen


def test_a_random_task_now_and_then() -> None:
    progress = [task((16, 1e-9)), task((16, 1.0))]
    assert {gradient(seed=seed).next(progress) for seed in range(20)} == {1}
    chosen = Counter(GradientScheduler(epsilon=0.5, seed=seed).next(progress) for seed in range(99))
    assert 10 < chosen[0] < 40


def test_without_a_success_the_others_get_their_turn() -> None:
    failing = [task((16 * n, math.nan)) for n in range(1, 4)]
    assert gradient().next([failing[2], task((16, 1.0))]) == 1


# -- when tasks stop ---------------------------------------------------------------------------


def test_patience_ends_a_task_and_at_last_the_whole() -> None:
    curves = network(2)
    for name in SCHEDULERS:
        scheduler = make_scheduler(name, patience=48)
        _, costs, progress = tune(curves, scheduler, 10**6)  # type: ignore[arg-type]
        assert scheduler.next(progress) is None
        for after in progress:
            assert 48 <= after.trials_without_gain < 48 + SLICE or after.most == after.trials
        assert costs[-1][0] == sum(p.trials for p in progress)


def test_tasks_of_networks_that_met_their_limit_get_nothing() -> None:
    scheduler = GradientScheduler(Requirements([2.0, 2.0]), epsilon=0.0)
    met, missed, shared = (
        TaskProgress((1, 0), trials=16, latencies=((16, 1.5),)),
        TaskProgress((0, 1), trials=64, latencies=((64, 2.5),)),
        TaskProgress((1, 1), trials=64, latencies=((64, 0.1),)),
    )
    assert scheduler.next([met, missed, shared]) == 1
    fast = TaskProgress((0, 1), trials=16, latencies=((16, 1.9),))
    assert scheduler.next([met, fast, shared]) is None
    # A network with an unknown task has not met its limit, but only that one is unknown.
    assert scheduler.next([met, fast, TaskProgress((0, 1))]) == 2
    assert scheduler.next([met, missed, TaskProgress((1, 0), default=0.1)]) == 1


@pytest.mark.parametrize("name", SCHEDULERS)
def test_tuning_stops_at_the_limits(name: str) -> None:
    curves = network(3)
    _, unlimited, _ = tune(curves, make_scheduler(name), TRIALS)  # type: ignore[arg-type]
    limit = 1.2 * unlimited[-1][1]
    scheduler = make_scheduler(name, objective="requirements", limits=limit)
    _, costs, progress = tune(curves, scheduler, TRIALS)  # type: ignore[arg-type]
    assert costs[-1] == (pytest.approx(costs[-1][0]), limit) and costs[-1][0] < TRIALS
    assert costs[-2][1] > limit
    assert scheduler.next(progress) is None
