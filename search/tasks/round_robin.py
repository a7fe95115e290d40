"""Every task in turn."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.search.tasks.progress import TaskProgress
from schedlang.search.tasks.scheduler import SchedulerBase


class RoundRobin(SchedulerBase):
    """The task with the fewest slices is next: a baseline."""

    name = "round_robin"

    def choose(
        self, progress: Sequence[TaskProgress], wanted: Sequence[int], slopes: Sequence[float]
    ) -> int:
        return min(wanted, key=lambda i: (len(progress[i].latencies), i))
