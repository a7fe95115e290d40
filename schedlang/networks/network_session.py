"""The loop over tasks: slices of trials, finals, the result."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

from schedlang.networks.display import Display
from schedlang.networks.network import Network
from schedlang.networks.network_result import NetworkResult, TaskResult
from schedlang.networks.network_tasks import SlicedTask, shares_of
from schedlang.networks.sizes import NetworkSet
from schedlang.networks.tasks import Total
from schedlang.search.tasks import HALF, TaskScheduler
from schedlang.tuning.budget import describe_trials
from schedlang.tuning.session import STORED, Call, Session

NOTHING_LEFT = "no task is left that more trials could help"
"""Why a search ended whose tasks have all ended."""

# Trials of a slice: as few as let every task have one with half of all trials, within limits.
FEWEST, _MOST = 4, 16
# The same for the first slice of a task that follows representatives: what was fast for them. Where
# few trials are left, all followers have some.
_FEWEST_FOLLOWING, _MOST_FOLLOWING = 2, 4
# Seconds of the finals' samples: of a task, and of all of them together.
LEAST_FINALS, _MOST_FINALS = 0.3, 3.0
_ALL_FINALS = 30.0


def finals_seconds(tasks: float) -> float:
    """Return the seconds of the finals' samples of one of this many equal tasks."""
    return min(max(_ALL_FINALS / tasks, LEAST_FINALS), _MOST_FINALS)


class NetworkSession(Session[Display, NetworkResult]):
    """The session of ``tune_network``: many tasks, and a scheduler that says which is next.

    Parameters
    ----------
    networks: what is tuned.
    runs: of their tasks, those with most arithmetic first.
    call: of all tasks.
    scheduler: says which task is next.
    name: of what is tuned.
    stored: whether the same call continues it.
    kept: says how records are kept where none are stored.

    Attributes
    ----------
    runs: as given.
    """

    def __init__(
        self,
        networks: Sequence[Network],
        runs: Sequence[SlicedTask],
        call: Call,
        scheduler: TaskScheduler,
        *,
        name: str = "",
        stored: bool = False,
        kept: str = "its records are in result.database",
    ) -> None:
        super().__init__(call, name, call.trials, how=STORED if stored else kept, kept=kept)
        self._networks = networks if isinstance(networks, NetworkSet) else tuple(networks)
        self._scheduler = scheduler
        self._trials = math.inf if call.trials is None else call.trials
        self.runs = runs

    def restore_clock(self) -> None:
        """Count the seconds that earlier calls used."""
        if self._call.budget.limited:
            self._call.budget.earlier = max((run.seconds for run in self.runs), default=0.0)

    @property
    def trials(self) -> int:
        """Number of trials so far, those of earlier calls included."""
        return sum(run.trials for run in self.runs)

    @property
    def measured(self) -> int:
        """The same: a task's slices count only what ran."""
        return self.trials

    def search(self, display: Display) -> str:
        """Give slices to tasks until trials or time are used up; return why it ended."""
        size = self._slice
        while self.trials < self._trials:
            if self._seconds_left <= 0:
                return self._over
            place = self._scheduler.next([run.progress for run in self.runs])
            if place is None:
                return NOTHING_LEFT
            run = self.runs[place]
            before = run.latency
            display.begin_slice(place)
            if run.advance(self._slice_of(run, size), display, self._slice_seconds(run)):
                display.end_slice(place, before)
            if run.out_of_time:
                return self._over
        return describe_trials(self.trials, int(self._trials))

    @property
    def _over(self) -> str:
        return self._call.budget.describe_end(self._call.finals > 0)

    @property
    def _seconds_left(self) -> float:
        """Seconds until the search ends; infinite without a limit."""
        budget = self._call.budget
        return budget.search_deadline(self._call.finals > 0) - budget.clock.now()

    def _slice_seconds(self, run: SlicedTask) -> float:
        """Seconds that a slice may take, for each task that waits for its first to have one.

        Representatives leave half of the time to the tasks that follow them.
        """
        waiting = [one for one in self.runs if one.progress.open and not one.history]
        alike = sum(one.shared.follows == run.shared.follows for one in waiting)
        part = 1.0 if run.shared.follows or len(waiting) == alike else HALF
        return self._seconds_left * part / max(alike, 1)

    @property
    def _slice(self) -> int:
        if math.isinf(self._trials):
            return _MOST // 2
        first = [run for run in self.runs if not run.shared.follows]
        trials = self._trials if len(first) == len(self.runs) else self._trials * HALF
        return max(FEWEST, min(_MOST, int(trials) // (2 * max(len(first), 1))))

    def _slice_of(self, run: SlicedTask, size: int) -> int:
        most = run.progress.most
        room = math.inf if most is None else most - run.trials
        return int(min(self._first_slice(run, size), room, self._trials - self.trials))

    def _first_slice(self, run: SlicedTask, size: int) -> int:
        """Return the size of a slice, which is smaller where it is the first of a follower."""
        if not run.shared.follows or run.history:
            return size
        waiting = sum(one.shared.follows and not one.history for one in self.runs)
        left = (self._trials - self.trials) / max(waiting, 1)
        return int(min(size, max(min(left, _MOST_FOLLOWING), _FEWEST_FOLLOWING)))

    def conclude(self, display: Display, finished: str) -> None:
        """Hold the finals of all tasks, and store how their runs ended."""
        changed = [run for run in self.runs if run.is_open]
        if changed:
            display.say(f"finals of {len(changed)} tasks")
        parts = dict(zip(self.runs, shares_of(self.runs).parts, strict=True))
        # Where time is short, the tasks that take most of the networks' time have finals.
        for run in sorted(changed, key=lambda one: -parts[one]):
            run.conclude(finals_seconds(1 / parts[run]) if parts[run] else LEAST_FINALS, finished)
        # With the time that the finals left.
        for run in changed:
            run.blame(finished)

    def result(self, finished: str, *, interrupted: bool = False) -> NetworkResult:
        """Return the result so far."""
        found = [self._task_result(run, finished) for run in self.runs]
        seconds = [sum(one.weights) * one.latency for one in found]
        total = Total.of(seconds)
        tasks = tuple(
            replace(one, share=total.share(part)) for one, part in zip(found, seconds, strict=True)
        )
        places = range(len(self._networks))
        call = self._call
        return NetworkResult(
            self._networks,
            call.target,
            tasks,
            tuple(_sum_of((one.weights[k], one.latency) for one in tasks) for k in places),
            tuple(
                _sum_of((one.weights[k], one.reference_latency) for one in tasks) for k in places
            ),
            self.trials,
            call.budget.elapsed,
            finished,
            interrupted,
            call.stored_in,
            call.budget.split(call.measuring.seconds, 0.0),
        )

    def _task_result(self, run: SlicedTask, finished: str) -> TaskResult:
        result = run.result(finished)
        latency, reference = math.nan, math.nan
        if result is not None:
            reference = result.reference_latency
            latency = result.best.latency if result.has_best else math.nan
        return TaskResult(
            run.shared.task,
            run.shared.weights,
            run.trials,
            latency,
            reference,
            math.nan,
            tuple(run.history),
            run.finished,
            run.failed,
            run.keeps_default,
            result,
        )


def _sum_of(calls: Iterable[tuple[int, float]]) -> float:
    """The seconds of these numbers of calls, where the seconds of one are known."""
    return Total.of(weight * seconds for weight, seconds in calls if weight).seconds
