"""What every scheduler does with every progress."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from schedlang.search.tasks import (
    SCHEDULERS,
    Objective,
    SchedulerBase,
    TaskProgress,
    make_objective,
    make_scheduler,
)

NETWORKS = 2
OBJECTIVES: dict[str, Objective] = {
    "latency": make_objective(networks=NETWORKS),
    "requirements": make_objective("requirements", limits=[1e-3, 0.1], networks=NETWORKS),
    "speedup": make_objective("speedup", networks=NETWORKS),
    "max": make_objective(max, networks=NETWORKS),
}

latency = st.one_of(
    st.floats(1e-9, 10.0), st.sampled_from([math.nan, math.inf]), st.floats(1e-6, 1e-2)
)


@st.composite
def tasks(draw: st.DrawFn) -> TaskProgress:
    sizes = draw(st.lists(st.integers(0, 20), max_size=5))
    counts = [sum(sizes[: end + 1]) for end in range(len(sizes))]
    return TaskProgress(
        weights=tuple(draw(st.lists(st.integers(0, 4), min_size=NETWORKS, max_size=NETWORKS))),
        flops=draw(st.sampled_from([0.0, 1.0, 1e6, 3e9])),
        kin=draw(st.sampled_from(["", "dense", "conv"])),
        trials=counts[-1] if counts else 0,
        latencies=[(count, draw(latency)) for count in counts],
        default=draw(latency),
        most=draw(st.sampled_from([None, None, 0, 2, 40])),
        finished=draw(st.booleans()),
    )


networks = st.lists(tasks(), max_size=6)
schedulers = st.builds(
    lambda name, objective, patience, seed: SCHEDULERS[name](
        OBJECTIVES[objective], patience=patience, seed=seed
    ),
    st.sampled_from(sorted(SCHEDULERS)),
    st.sampled_from(sorted(OBJECTIVES)),
    st.sampled_from([None, 1, 30]),
    st.integers(0, 3),
)


@given(schedulers, networks)
def test_only_tasks_that_want_trials_get_some(
    scheduler: SchedulerBase, progress: list[TaskProgress]
) -> None:
    chosen = scheduler.next(progress)
    if chosen is None:
        return
    task = progress[chosen]
    assert task.open and not task.finished and any(task.weights)
    assert task.most is None or task.trials < task.most
    assert scheduler.patience is None or task.trials_without_gain < scheduler.patience


@given(schedulers, networks)
def test_the_same_progress_gives_the_same_task(
    scheduler: SchedulerBase, progress: list[TaskProgress]
) -> None:
    chosen = scheduler.next(progress)
    scheduler.next(progress[:-1])  # what it was asked in between does not matter
    assert scheduler.next(list(progress)) == chosen
    fresh = type(scheduler)(scheduler.objective, patience=scheduler.patience, seed=scheduler.seed)
    assert fresh.next([replace(task) for task in progress]) == chosen


@pytest.mark.parametrize("name", SCHEDULERS)
@given(progress=networks)
def test_nobody_gets_trials_only_if_nobody_wants_some(
    name: str, progress: list[TaskProgress]
) -> None:
    chosen = make_scheduler(name, networks=NETWORKS).next(progress)
    wants = [task.open and any(task.weights) for task in progress]
    assert (chosen is None) == (not any(wants))


@pytest.mark.parametrize("name", SCHEDULERS)
@given(progress=networks)
def test_every_task_gets_a_slice_first(name: str, progress: list[TaskProgress]) -> None:
    chosen = make_scheduler(name, networks=NETWORKS).next(progress)
    untried = [
        i
        for i, task in enumerate(progress)
        if task.open and any(task.weights) and not task.latencies
    ]
    assert not untried or chosen in untried
