"""Latencies of tasks and networks while some are unknown."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from schedlang.search.tasks.progress import TaskProgress


def estimated_latencies(progress: Sequence[TaskProgress]) -> list[float]:
    """Return the latency of each task in seconds, estimated where it is unknown.

    An unknown one is computed from the lowest rate (operations per second) of the tasks of its kin,
    or of all tasks where its kin has none. A task without operations is as slow as the median task.
    Without any known latency, the rate is one operation a second and the median one second.
    """
    rates = [(task.kin, task.flops / task.latency) for task in progress if _has_rate(task)]
    usual = median([task.latency for task in progress if task.known] or [1.0])
    slowest = min([rate for _, rate in rates], default=1.0)
    return [
        task.latency
        if task.known
        else task.flops
        / min([rate for kin, rate in rates if kin == task.kin and kin], default=slowest)
        or usual
        for task in progress
    ]


def _has_rate(task: TaskProgress) -> bool:
    return task.known and task.flops > 0.0 and task.latency > 0.0


def best_rates(progress: Sequence[TaskProgress]) -> dict[str, float]:
    """Return the highest rate, in operations per second, of each kin that has one."""
    rates: dict[str, float] = {}
    for task in progress:
        if task.kin and _has_rate(task):
            rates[task.kin] = max(rates.get(task.kin, 0.0), task.flops / task.latency)
    return rates


def total(progress: Sequence[TaskProgress], latencies: Sequence[float]) -> tuple[float, ...]:
    """Return the latency of each network: the weighted sum over its tasks."""
    networks = range(len(progress[0].weights)) if progress else range(0)
    pairs = list(zip(progress, latencies, strict=True))
    return tuple(
        math.fsum(
            task.weights[network] * latency for task, latency in pairs if task.weights[network]
        )
        for network in networks
    )


def network_latencies(progress: Sequence[TaskProgress]) -> tuple[float, ...]:
    """Return the latency of each network in seconds; NaN where one of its tasks is unknown."""
    return total(progress, [task.latency for task in progress])
