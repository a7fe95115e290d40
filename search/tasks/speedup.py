"""The mean speed-up of several networks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.search.tasks.estimates import estimated_latencies, network_latencies, total
from schedlang.search.tasks.objective import Objective
from schedlang.search.tasks.progress import TaskProgress


class Speedup(Objective):
    """The negative geometric mean of the networks' speed-ups (Ansor, Table 2, f3).

    The reference of a network is its latency without tuning. For a task whose default latency is
    unknown, the first known one takes its place.
    """

    name = "speedup"

    def cost(self, progress: Sequence[TaskProgress]) -> float:
        references = total(progress, [_first_known(task) for task in progress])
        ratios = [
            reference / latency if latency else math.nan
            for reference, latency in zip(references, network_latencies(progress), strict=True)
        ]
        return -(math.prod(ratios) ** (1.0 / len(ratios))) if ratios else math.nan

    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        # The derivative by a task's latency without its factor, the mean itself, which is the same
        # for all tasks: so the references do not matter.
        latencies = total(progress, estimated_latencies(progress))
        return [
            math.fsum(
                weight / latency
                for weight, latency in zip(task.weights, latencies, strict=True)
                if latency
            )
            / len(latencies)
            for task in progress
        ]


def _first_known(task: TaskProgress) -> float:
    return next((latency for _, latency in task.history if not math.isnan(latency)), math.nan)
