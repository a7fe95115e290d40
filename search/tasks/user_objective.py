"""An objective that is a user's function."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from schedlang.search.tasks.estimates import estimated_latencies, network_latencies, total
from schedlang.search.tasks.objective import Objective, ObjectiveError
from schedlang.search.tasks.progress import TaskProgress

STEP = 1e-3
"""Step of the central difference, as a fraction of a latency."""


class UserObjective(Objective):
    """A function of the networks' latencies (Ansor, 6.1: users may give their own).

    The function is called with a tuple of latencies in seconds, one for each network, and returns
    the cost, which is minimized. Latencies of tasks that are still unknown are estimated. Its
    derivative is a central difference. ``ObjectiveError`` if it raises, if it returns anything but
    a finite number, or if its cost rises wherever a latency falls.
    """

    def __init__(self, function: Callable[[tuple[float, ...]], float]) -> None:
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))

    def of(self, latencies: tuple[float, ...]) -> float:
        """Return the cost of these latencies in seconds, one for each network."""
        given = f"objective {self.name}({latencies})"
        try:
            value = self.function(latencies)
        except Exception as error:
            raise ObjectiveError(f"{given} raised {type(error).__name__}: {error}") from error
        try:
            cost = float(value)
        except (TypeError, ValueError) as error:
            raise ObjectiveError(f"{given} returned {value!r}; return a number") from error
        if not math.isfinite(cost):
            raise ObjectiveError(f"{given} returned {cost}; return a finite number")
        return cost

    def cost(self, progress: Sequence[TaskProgress]) -> float:
        latencies = network_latencies(progress)
        return math.nan if any(map(math.isnan, latencies)) else self.of(latencies)

    def slopes(self, progress: Sequence[TaskProgress]) -> list[float]:
        latencies = total(progress, estimated_latencies(progress))
        partial = [self._derivative(latencies, network) for network in range(len(latencies))]
        if partial and min(partial) < 0.0 >= max(partial):
            raise ObjectiveError(
                f"objective {self.name}({latencies}) rises when a latency falls; return a cost, "
                "which is minimized"
            )
        return [
            max(0.0, math.fsum(w * d for w, d in zip(task.weights, partial, strict=True)))
            for task in progress
        ]

    def _derivative(self, latencies: tuple[float, ...], network: int) -> float:
        step = STEP * latencies[network]
        if not step:
            return 0.0
        costs = []
        for moved in (step, -step):
            point = list(latencies)
            point[network] += moved
            costs.append(self.of(tuple(point)))
        return (costs[0] - costs[1]) / (2.0 * step)

    @property
    def settings(self) -> Mapping[str, object]:
        return {"function": self.function}
