"""Default schedules of many programs, as those of a network, in the time that there is."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from schedlang.errors import TargetError
from schedlang.language.schedule import Schedule
from schedlang.targets import Target
from schedlang.targets.host import usable_cpus
from schedlang.tuning.defaults.default_schedule import choose_schedule
from schedlang.tuning.defaults.helpers import Helper, described, wait
from schedlang.workloads.workload import Workload

# A helper is started for this many seconds of work: it imports TVM first.
_WORTH_A_HELPER = 4.0
_WAIT_SECONDS = 0.2


@dataclass(frozen=True)
class Default:
    """A default schedule.

    Attributes
    ----------
    schedule: what ``default_schedule`` returns.
    hasty: whether the time was over before all programs were compared; ``schedule`` is then the
        best of those before.
    """

    schedule: Schedule
    hasty: bool


def default_schedules(
    workloads: Sequence[Workload],
    target: Target,
    *,
    deadline: float = math.inf,
    tell: Callable[[int], None] = lambda done: None,
) -> list[Default]:
    """Return the default schedule of each workload; give those that matter most first.

    Where there is work for seconds, processes help on the other cores. The schedules are the same
    with and without them.

    Parameters
    ----------
    deadline: the moment of ``time.monotonic`` from which on programs are not compared any more:
        each workload left gets the mode of the space's prior.
    tell: called with the number of schedules that are done, again and again.
    """
    making = _Making(workloads, target, deadline, tell)
    try:
        making.run()
    finally:
        making.close()
    return [making.made[place] for place in range(len(workloads))]


class _Making:
    """The schedules that are made, open, with a helper, or returned by one."""

    def __init__(
        self,
        workloads: Sequence[Workload],
        target: Target,
        deadline: float,
        tell: Callable[[int], None],
    ) -> None:
        self._workloads = workloads
        self._target = target
        self._deadline = deadline
        self._tell = tell
        self._open = deque(range(len(workloads)))
        # What a helper failed to make: this process makes it, or meets the error.
        self._returned: list[int] = []
        self._helpers: list[Helper] = []
        self._start = described(target)
        self._began = time.monotonic()
        self.made: dict[int, Default] = {}

    def run(self) -> None:
        while len(self.made) < len(self._workloads):
            if self._returned:
                self._make(self._returned.pop())
            elif self._open:
                self._make(self._open.popleft())
                self._start_helpers()
            else:
                wait([one for one in self._helpers if one.place is not None], _WAIT_SECONDS)
            self._is_over()

    def close(self) -> None:
        for helper in self._helpers:
            helper.close()
        self._helpers = []

    def _make(self, place: int) -> None:
        hasty = False

        def is_over() -> bool:
            nonlocal hasty
            hasty = self._is_over()
            return hasty

        schedule = choose_schedule(self._workloads[place], self._target, is_over=is_over)
        self.made[place] = Default(schedule, hasty)

    def _is_over(self) -> bool:
        """Look after the helpers, and tell whether the time is over: then there are none."""
        for helper in list(self._helpers):
            self._look_after(helper)
        self._tell(len(self.made))
        over = time.monotonic() >= self._deadline
        if over and self._helpers:
            self._returned += [one.place for one in self._helpers if one.place is not None]
            self.close()
        return over

    def _look_after(self, helper: Helper) -> None:
        place = helper.place
        wait([helper], 0.0)
        schedule = helper.take()
        if schedule is not None and place is not None:
            self.made[place] = Default(schedule, False)
        elif place is not None and (helper.lost or helper.place is None):
            self._returned.append(place)
        if helper.lost:
            helper.close()
            self._helpers.remove(helper)
        elif helper.ready and helper.place is None and self._open:
            # From the back, where the small ones are: this process takes the large ones.
            last = self._open.pop()
            helper.give(last, self._workloads[last])

    def _start_helpers(self) -> None:
        if self._start is None or not self._open:
            return
        each = (time.monotonic() - self._began) / max(len(self.made), 1)
        left = max(min(each * len(self._open), self._deadline - time.monotonic()), 0.0)
        count = min(len(usable_cpus()) - 1, int(left / _WORTH_A_HELPER), len(self._open))
        if count > 0:
            start, self._start = self._start, None
            with suppress(TargetError):  # no process can be started: this one does it all
                self._helpers.extend(Helper(start) for _ in range(count))
