"""Which part of the networks' time each task takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.networks.tuning.task_run import TaskRun


@dataclass(frozen=True)
class Shares:
    """The time of the tasks whose latency is known.

    Attributes
    ----------
    total: seconds of one run of all networks, as far as latencies are known.
    parts: fraction of ``total`` for each task; 0 where its latency is not known.
    """

    total: float
    parts: tuple[float, ...]


def shares_of(runs: Sequence[TaskRun]) -> Shares:
    """Return the share of each task."""
    seconds = [_known(sum(run.shared.weights) * run.latency) for run in runs]
    total = math.fsum(seconds)
    return Shares(total, tuple(one / total if total > 0 else 0.0 for one in seconds))


def _known(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else seconds
