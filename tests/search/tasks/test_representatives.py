"""``RepresentativesFirst``: a few networks have half of the budget to themselves."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.search.tasks import (
    GradientScheduler,
    RepresentativesFirst,
    RoundRobin,
    TaskProgress,
    TotalLatency,
    make_objective,
)


def task(*weights: float, latencies: Sequence[float] = (), finished: bool = False) -> TaskProgress:
    """A task with slices of four trials."""
    history = [(4 * (k + 1), latency) for k, latency in enumerate(latencies)]
    return TaskProgress(weights, 1e6, "kin", 4 * len(history), history, finished=finished)


def spent(limit: int) -> RepresentativesFirst:
    return RepresentativesFirst(
        RoundRobin(), [1], lambda progress: sum(one.trials for one in progress) / limit
    )


def test_representatives_come_first_until_half_is_used() -> None:
    others, mine = task(1, 0, 0), task(0, 1, 0, latencies=[1.0])
    assert spent(100).next([others, mine, task(0, 0, 1)]) == 1
    assert spent(8).next([others, mine, task(0, 0, 1)]) == 0, "half is used: others have a slice"
    shared = task(1, 1, 0)
    assert spent(100).next([others, mine, shared]) == 2, "a representative calls it, too"


def test_they_end_when_none_of_them_gains() -> None:
    gaining = task(0, 1, latencies=[1.0, 1.0, 0.5])
    stuck = task(0, 1, latencies=[1.0, 1.0, 1.0, 1.0])
    assert spent(1000).next([task(1, 0), gaining, stuck]) in (1, 2)
    assert spent(1000).next([task(1, 0), stuck, stuck]) == 0
    done = task(0, 1, latencies=[1.0], finished=True)
    assert spent(1000).next([task(1, 0), stuck, done]) == 0
    assert spent(1000).next([done, done]) is None


def test_all_tasks_are_weighed_afterwards() -> None:
    scheduler = RepresentativesFirst(
        GradientScheduler(TotalLatency([0.0, 1.0]), epsilon=0), [1], _all
    )
    progress = [task(1, 0, latencies=[9.0]), task(0, 1, latencies=[1.0])]
    assert scheduler.next(progress) == 1, "the first network never runs"
    assert scheduler.settings["representatives"] == (1,)
    assert scheduler.name == "representatives first, gradient"


def _all(_: Sequence[TaskProgress]) -> float:
    return 1.0


def test_weights_of_the_networks() -> None:
    objective = make_objective("latency", networks=2, weights=[0.5, 4.0])
    progress = [task(2, 1, latencies=[3.0]), task(0, 1, latencies=[5.0])]
    assert objective.slopes(progress) == [5.0, 4.0]
    assert objective.cost(progress) == 0.5 * 6.0 + 4.0 * 8.0
    assert objective.settings == {"weights": (0.5, 4.0)} and not TotalLatency().settings
    unknown = [task(1, 0), task(0, 1, latencies=[5.0])]
    assert make_objective(networks=2, weights=[0.0, 1.0]).cost(unknown) == 5.0
