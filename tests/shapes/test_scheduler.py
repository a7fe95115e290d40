"""Which shape of a set gets the next trials."""

from __future__ import annotations

import math

import numpy as np
import pytest

from schedlang.search.tasks import TaskProgress
from schedlang.shapes.plan import Expectation, ShapesScheduler
from schedlang.workloads.structural_key import coordinates

SIZES = (1, 2, 64, 256, 512)
WORK = [(size * 1e6, 4e6 + size * 8e3) for size in SIZES]


def seconds(size: int) -> float:
    """Microseconds for the call, for operations, and for bytes."""
    return 1e-6 + size * 1e6 / 100e9 + (4e6 + size * 8e3) / 50e9


def progress(slices: dict[int, int], slow: dict[int, float]) -> list[TaskProgress]:
    """Tasks with the given numbers of slices; ``slow`` multiplies the latencies of some."""
    made = []
    for place, size in enumerate(SIZES):
        latency = seconds(size) * slow.get(place, 1.0)
        had = slices.get(place, 1)
        history = tuple((4 * k, latency) for k in range(1, had + 1))
        made.append(TaskProgress((1.0,), trials=4 * had, latencies=history))
    return made


def scheduler(first: tuple[int, ...] = (3,)) -> ShapesScheduler:
    """One that tunes one of them in earnest."""
    places = np.log(np.array(SIZES, dtype=float))
    far = np.abs(places[:, None] - places[None, :])
    return ShapesScheduler(first, 16, far, Expectation(WORK))


def test_those_in_earnest_come_first_and_then_each_once() -> None:
    one = scheduler()
    slices = dict.fromkeys(range(len(SIZES)), 0)
    order = []
    for _ in range(8):
        place = one.next(progress(slices, {}))
        assert place is not None
        order.append(place)
        slices[place] += 1
    assert order[:4] == [3, 3, 3, 3]
    assert order[4:] == [4, 2, 1, 0], "the nearest to what was tuned first"


def test_a_task_that_takes_longer_than_expected_is_behind() -> None:
    slices = {3: 4}
    assert scheduler().next(progress(slices, {2: 1.8})) == 2
    assert scheduler().next(progress(slices, {4: 1.8})) == 4


def test_small_shapes_are_not_behind_because_memory_limits_them() -> None:
    rates = [work / seconds(size) for size, (work, _) in zip(SIZES, WORK, strict=True)]
    assert rates[0] < rates[3] / 5
    assert scheduler().next(progress({3: 4}, {2: 1.2})) == 2


def test_what_a_task_has_had_counts_against_it() -> None:
    assert scheduler().next(progress({3: 4, 2: 3}, {2: 1.3, 4: 1.2})) == 4


def test_a_task_without_a_latency_is_next_and_one_that_has_all_is_not() -> None:
    assert scheduler().next(progress({3: 4}, {1: math.inf})) == 1
    assert scheduler().next(progress(dict.fromkeys(range(5), 4), {2: 3.0})) is None


def test_a_size_that_divides_alike_is_nearer() -> None:
    def apart(one: tuple[int, ...], other: tuple[int, ...]) -> float:
        pairs = zip(coordinates(one), coordinates(other), strict=True)
        return sum(abs(a - b) for a, b in pairs)

    assert apart((16, 768), (16, 512)) < apart((16, 768), (16, 771))
    assert apart((16, 511, 771), (200, 511, 771)) < apart((16, 511, 771), (16, 768, 768))
    assert apart((17,), (17,)) == 0 == apart((3,), (3,))
    assert apart((64,), (128,)) == pytest.approx(math.log(2))
