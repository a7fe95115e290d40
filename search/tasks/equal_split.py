"""The same number of trials for every task."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.search.tasks.progress import TaskProgress
from schedlang.search.tasks.scheduler import SchedulerBase


class EqualSplit(SchedulerBase):
    """The task with the fewest trials is next, whatever the sizes of slices: a baseline."""

    name = "equal_split"

    def choose(
        self, progress: Sequence[TaskProgress], wanted: Sequence[int], slopes: Sequence[float]
    ) -> int:
        return min(wanted, key=lambda i: (progress[i].trials, len(progress[i].latencies), i))
