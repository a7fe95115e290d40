"""What orders take: who takes much longer is late."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from functools import cache

from schedlang.tuning.hosts.messages import Order

_REMEMBERED = 64
# What is expected of a task: the median of its orders. Of one that none has come back of, what nine
# of ten orders take at most.
_OF_TASK, _OF_OTHERS = 0.5, 0.9


# The seconds of an order, and its size.
_Taken = tuple[float, int]


class UsualTimes:
    """Seconds that the latest orders took, by what they were for and by their tasks."""

    def __init__(self) -> None:
        self._of_task: dict[tuple[str, str], deque[_Taken]]
        self._of_task = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        self._of_all: dict[str, deque[_Taken]]
        self._of_all = defaultdict(lambda: deque(maxlen=_REMEMBERED))

    def see(self, order: Order, seconds: float) -> None:
        """Take note of what an order took."""
        taken = seconds, _size_of(order)
        self._of_task[order.what, order.run.workload_key].append(taken)
        self._of_all[order.what].append(taken)

    def expected(self, under_way: Sequence[tuple[Order, float]]) -> Callable[[Order], float | None]:
        """Return what says how many seconds an order should take; None while nothing is known.

        ``under_way`` are orders with the seconds up to now: which tasks are slow is not known until
        they come back.
        """
        so_far: dict[str, list[_Taken]] = defaultdict(list)
        for order, seconds in under_way:
            so_far[order.what].append((seconds, _size_of(order)))

        @cache  # many hosts have slices of few tasks
        def seconds_of(what: str, task: str, size: int) -> float | None:
            if not self._of_all[what]:
                return None
            taken, part = [*self._of_task[what, task]], _OF_TASK
            if not taken:
                taken, part = [*self._of_all[what], *so_far[what]], _OF_OTHERS
            # A smaller slice may take as long, as it begins with restoring the search.
            seconds = sorted(one * max(size / other, 1.0) for one, other in taken)
            return seconds[int(len(seconds) * part)]

        return lambda order: seconds_of(order.what, order.run.workload_key, _size_of(order))


def _size_of(order: Order) -> int:
    """Return the number of trials of a slice; 1 for finals."""
    return max(order.trials, 1)
