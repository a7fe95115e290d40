"""The task whose next slice should lower the cost most."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

from schedlang.search.tasks.estimates import best_rates, estimated_latencies
from schedlang.search.tasks.objective import Objective
from schedlang.search.tasks.progress import TaskProgress
from schedlang.search.tasks.scheduler import SchedulerBase


class GradientScheduler(SchedulerBase):
    """Gradient descent over tasks (Ansor, 6.2 and appendix A).

    The derivative of the cost by the trials of a task is approximated by its slope (the derivative
    by the task's latency) times::

        alpha * (g(t) - g(t - window)) / (trials between)
            + (1 - alpha) * min(-gain / t, (beta * C / V - g(t)) / (slice * (1 + stale)))
        gain = min(g(t), g(t / 2) - g(t) + optimism * g(t))

    where g is the lowest latency after t trials, C the operations of a call and V the highest rate
    among the tasks of its kin. The task with the largest absolute value is next. The unit of t is a
    trial, and ``slice`` is the number of trials of the task's last slice: with slices of one size,
    the order of tasks is the paper's, whose unit is a slice.

    Two terms are not the paper's, which expects that another t trials may bring the latency to 0.
    Here they may gain what the last t / 2 gained, and ``optimism`` of the latency besides; 1 is the
    paper's guess, which spends too much on heavy tasks that have converged. ``stale`` is the number
    of slices since the last gain: without it, a task that cannot reach its kin is always next.

    Parameters
    ----------
    objective, patience, seed: see ``SchedulerBase``.
    alpha: weight of the past, from 0 to 1; the rest is that of the prediction.
    beta: factor on the latency that the kin's rate predicts; lower values trust it more.
    window: number of slices of the backward difference.
    optimism: fraction of its latency that a task may lose unexpectedly, from 0 to 1.
    epsilon: probability of a random task instead. The seed and the number of slices so far decide.
    """

    name = "gradient"

    def __init__(
        self,
        objective: Objective | None = None,
        *,
        alpha: float = 0.2,
        beta: float = 2.0,
        window: int = 3,
        optimism: float = 0.3,
        epsilon: float = 0.05,
        patience: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(objective, patience=patience, seed=seed)
        for name, fraction in (("alpha", alpha), ("optimism", optimism), ("epsilon", epsilon)):
            if not 0.0 <= fraction <= 1.0:
                raise ValueError(f"{name}={fraction!r}; give a number from 0 to 1")
        if not beta > 0.0:
            raise ValueError(f"beta={beta!r}; give a positive number")
        if type(window) is not int or window < 1:
            raise ValueError(f"window={window!r}; give a whole number of slices, 1 or more")
        self.alpha = alpha
        self.beta = beta
        self.window = window
        self.optimism = optimism
        self.epsilon = epsilon

    def choose(
        self, progress: Sequence[TaskProgress], wanted: Sequence[int], slopes: Sequence[float]
    ) -> int:
        slices = sum(len(task.latencies) for task in progress)
        rng = random.Random(f"{self.seed} {slices}")
        if rng.random() < self.epsilon:
            return rng.choice(wanted)
        latencies = estimated_latencies(progress)
        rates = best_rates(progress)
        gains = {
            i: slopes[i]
            * (
                self.alpha * self._past_gain(progress[i])
                + (1.0 - self.alpha) * self._predicted_gain(progress[i], latencies[i], rates)
            )
            for i in wanted
        }
        return max(wanted, key=lambda i: (gains[i], -i))

    def _past_gain(self, task: TaskProgress) -> float:
        """Seconds that a trial gained over the last slices; 0 after one slice."""
        end, now = task.history[-1]
        # The default at 0 trials is no result of a search: the first slice gains most of it.
        start, before = task.history[max(1, len(task.history) - 1 - self.window)]
        return (before - now) / (end - start) if before > now and end > start else 0.0

    def _predicted_gain(
        self, task: TaskProgress, latency: float, rates: Mapping[str, float]
    ) -> float:
        """Seconds that the next trial should gain."""
        optimistic = self._optimistic_gain(task, latency) / max(task.trials, 1)
        if not task.flops or task.kin not in rates:
            return optimistic
        slices = len(task.latencies)
        size = max(task.trials - task.history[slices - 1][0], 1)
        similar = latency - self.beta * task.flops / rates[task.kin]
        return max(optimistic, similar / (size * (1 + slices - task.last_gain)))

    def _optimistic_gain(self, task: TaskProgress, latency: float) -> float:
        """Seconds that as many trials again may gain."""
        early = [best for trials, best in task.history[1:] if 2 * trials <= task.trials]
        if not early or math.isnan(early[-1]):
            return latency
        return min(latency, early[-1] - latency + self.optimism * latency)

    @property
    def settings(self) -> Mapping[str, object]:
        return {
            **super().settings,
            "alpha": self.alpha,
            "beta": self.beta,
            "window": self.window,
            "optimism": self.optimism,
            "epsilon": self.epsilon,
        }
