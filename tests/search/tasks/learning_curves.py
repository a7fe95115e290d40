"""Networks of tasks with known learning curves, and a loop that tunes them without measuring."""

from __future__ import annotations

import functools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from schedlang.search.tasks import SchedulerBase, TaskProgress

SLICE = 16


@dataclass(frozen=True, eq=False)
class Curve:
    """The latency of a task falls to ``floor`` by a power of its trials, with luck in between."""

    task: TaskProgress
    floor: float
    scale: float
    power: float
    seed: int = 0

    @functools.cache  # noqa: B019 - the curves of a test are few
    def best(self, trials: int) -> float:
        """The lowest latency, in seconds, of this many trials."""
        rng = random.Random(self.seed)
        found = [
            self.floor
            * (1.0 + self.scale * (number / 8.0) ** -self.power)
            * math.exp(abs(rng.gauss(0.0, 0.2)))
            for number in range(4, trials + 4, 4)
        ]
        return min(found, default=math.inf)


def network(seed: int, tasks: int = 24) -> list[Curve]:
    """Tasks of three kins, with operations over three decades, and some that compute nothing."""
    rng = random.Random(seed)
    curves = []
    for number in range(tasks):
        flops = 10.0 ** rng.uniform(6.0, 9.0)
        floor = flops / (5e10 * rng.uniform(0.5, 1.0))
        task = TaskProgress(
            (rng.choice((1, 1, 1, 2, 3, 8)),),
            flops,
            rng.choice("abc"),
            default=floor * rng.uniform(5.0, 60.0),
        )
        curves.append(Curve(task, floor, rng.uniform(0.2, 6.0), rng.uniform(0.3, 2.5), number))
    for _ in range(tasks // 4):
        task = TaskProgress((rng.choice((1, 10)),), default=3e-6, most=2)
        curves.append(Curve(task, 1e-6, 1.0, 1.0))
    return curves


def tune(
    curves: Sequence[Curve], scheduler: SchedulerBase, trials: int
) -> tuple[list[int], list[tuple[int, float]], list[TaskProgress]]:
    """Give the trials by the scheduler.

    Returns the tasks in order, (trials, cost) after each slice, and where the tasks are.
    """
    progress = [curve.task for curve in curves]
    order, costs, used = [], [], 0
    while used < trials and (chosen := scheduler.next(progress)) is not None:
        task = progress[chosen]
        left = trials - used if task.most is None else min(trials - used, task.most - task.trials)
        number = task.trials + min(SLICE, left)
        used += number - task.trials
        latencies = (*task.latencies, (number, curves[chosen].best(number)))
        progress[chosen] = replace(task, trials=number, latencies=latencies)
        order.append(chosen)
        costs.append((used, scheduler.objective.cost(progress)))
    return order, costs, progress
