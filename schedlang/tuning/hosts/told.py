"""What the driver tells of the records of hosts: to callbacks, stop rules and the live view."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.database import Record
from schedlang.tuning.callbacks import Watch
from schedlang.tuning.hosts.islands import Islands
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.live import Progress
from schedlang.tuning.records import as_measurement
from schedlang.tuning.resume import RunState
from schedlang.tuning.session import Call


class Telling:
    """Tells of what hosts have measured of a task, in the order of arrival.

    Parameters
    ----------
    call: has callbacks and rules.
    task: was opened.

    Attributes
    ----------
    reason: why a rule ends the search of the task; empty while none does.
    """

    def __init__(self, call: Call, task: Islands) -> None:
        verified = call.measuring.verified is not False
        self._strategy = task.first.strategy
        state = RunState(
            task.first.task.workload,
            self._strategy,
            Leaderboard(1, verified=verified),
            records=list(task.records),
        )
        self._task = task
        self._compared = False
        self._watch = Watch(call.steps, state, call.target, call.budget)

    @property
    def reason(self) -> str:
        """Why a rule ends the search; empty while none does."""
        return self._watch.reason

    @property
    def stopped(self) -> str:
        """The identity of that rule."""
        return self._watch.stopped

    def tell(self, records: Sequence[Record], progress: Progress) -> None:
        """Tell of new records."""
        for record in records:
            progress.update(as_measurement(record, record.proposal or 0), self._strategy)
            self._watch.see(record)
        latency = self._task.unscheduled_latency
        if not self._compared and latency > 0:
            self._compared = True
            progress.compare_with(latency, complete=True)
