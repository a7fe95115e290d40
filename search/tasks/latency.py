"""The latency of all networks together."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.search.tasks.estimates import network_latencies
from schedlang.search.tasks.objective import Objective
from schedlang.search.tasks.progress import TaskProgress


class Latency(Objective):
    """The sum of the networks' latencies, in seconds (Ansor, Table 2, f1)."""

    name = "latency"

    def cost(self, progress: Sequence[TaskProgress]) -> float:
        return sum(network_latencies(progress))

    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        return [float(sum(task.weights)) for task in progress]
