"""Networks that have to be fast enough, and no faster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from schedlang.search.tasks.estimates import network_latencies
from schedlang.search.tasks.objective import Objective
from schedlang.search.tasks.progress import TaskProgress


class Requirements(Objective):
    """The sum of max(latency, limit) over the networks, in seconds (Ansor, Table 2, f2).

    Tasks get no trials once all their networks have met their limits. A network with a task of
    unknown latency has not met its limit.

    Parameters
    ----------
    limits: the latency that suffices, in seconds, for each network.
    """

    name = "requirements"

    def __init__(self, limits: Sequence[float]) -> None:
        self.limits = tuple(float(limit) for limit in limits)
        for limit in self.limits:
            if not limit > 0.0:
                raise ValueError(f"limits={self.limits}: {limit} is not a latency in seconds")

    def cost(self, progress: Sequence[TaskProgress]) -> float:
        latencies = network_latencies(progress)
        if any(map(math.isnan, latencies)):
            return math.nan
        return sum(map(max, latencies, self.limits))

    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        pairs = zip(network_latencies(progress), self.limits, strict=True)
        missed = [not latency <= limit for latency, limit in pairs]
        return [
            math.fsum(weight for weight, miss in zip(task.weights, missed, strict=True) if miss)
            for task in progress
        ]

    @property
    def settings(self) -> Mapping[str, object]:
        return {"limits": self.limits}
