"""``tune(hosts=)``: hosts search one program beside each other.

``Telling`` tells callbacks, stop rules and the live view of what hosts have measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from schedlang.database import Record
from schedlang.database.programs import program_text
from schedlang.tuning.hosts.given import Given
from schedlang.tuning.hosts.host import task_text
from schedlang.tuning.hosts.hosted_run import HostedRun
from schedlang.tuning.hosts.islands import STRIDE, Islands
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import as_measurement
from schedlang.tuning.session import Call
from schedlang.tuning.session.callbacks import Watch
from schedlang.tuning.session.live_view import Progress
from schedlang.tuning.session.resume import RunState
from schedlang.workloads.workload import Workload

# -- One call of ``tune`` with hosts --------------------------------------------------------------


def islands_of(
    call: Call,
    given: Given,
    packed: bytes,
    stack: ExitStack,
    workload: Workload,
    *,
    moves_data: bool = False,
    most: Callable[[], int],
    seed: int | None = None,
) -> Islands:
    """Return the runs of a task that hosts search, at most as many as ``most`` returns.

    ``seed`` is that of the first, by default the call's.
    """
    first = call.seed if seed is None else seed
    text = task_text(workload, program_text(workload), moves_data=moves_data)

    def make_run(number: int) -> HostedRun:
        count = max(most(), number + 1)
        task = given.task(
            workload, first + number * STRIDE, moves_data=moves_data, number=number, count=count
        )
        return HostedRun(task, call, stack, text, packed, (number, count))

    return Islands(make_run, call, most, own=given.measures_itself)


# -- What is told of the records of hosts ---------------------------------------------------------


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
