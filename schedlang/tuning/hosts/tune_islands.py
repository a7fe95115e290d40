"""``tune(hosts=)``: hosts search one program beside each other.

``Telling`` tells callbacks, stop rules and the live view of what hosts have measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from schedlang.database import Record
from schedlang.database.programs import program_text
from schedlang.errors import WorkloadError
from schedlang.search import MakeStrategy, Strategy
from schedlang.spaces.space import Space
from schedlang.tuning.hosts.driving import SLICE, Driving
from schedlang.tuning.hosts.given import Given
from schedlang.tuning.hosts.host import task_text
from schedlang.tuning.hosts.hosted_run import HostedRun
from schedlang.tuning.hosts.hosts import Hosts
from schedlang.tuning.hosts.islands import STRIDE, Islands
from schedlang.tuning.hosts.messages import UNTUNABLE, HostReply
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import as_measurement
from schedlang.tuning.result import TuneResult
from schedlang.tuning.session import Call, Unfinished
from schedlang.tuning.session.callbacks import Watch
from schedlang.tuning.session.live_view import LiveView, Progress
from schedlang.tuning.session.resume import RunState
from schedlang.tuning.session.run import FINALS_SECONDS
from schedlang.workloads.workload import Workload

# -- One call of ``tune`` with hosts --------------------------------------------------------------


def given_of(
    call: Call,
    *,
    network: bool,
    space: Space | None,
    search: str | MakeStrategy | Strategy,
    measurer: Any,
) -> Given:
    """Return what hosts need of a call, which was opened.

    ValueError for a strategy that was made already, as each run makes its own; TypeError for a
    measurer that was.
    """
    if isinstance(search, Strategy):
        raise ValueError(
            f"search: this {search.name!r} was made here, and hosts make searches of their own; "
            "give its class, or a function that makes it"
        )
    made = hasattr(measurer, "measure") and not isinstance(measurer, type)
    if measurer is not None and (made or not callable(measurer)):
        raise TypeError(
            f"measurer: with hosts, give a function that makes one on each host, f(target) -> "
            f"Measurer, and no {type(measurer).__name__}"
        )
    return Given(
        network=network,
        target=call.target,
        space=space,
        search=search,
        trials=call.trials,
        seconds=None if not call.budget.limited else call.budget.seconds,
        seed=call.seed,
        batch=call.batch,
        verify=call.verify,
        transfer=call.transfer,
        finals=call.finals,
        compared=call.problem.given(),
        make_measurer=measurer,
    )


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


class Tuning:
    """One call of ``tune`` with hosts, after its arguments were checked."""

    def __init__(self, call: Call, hosts: Hosts, task: Islands) -> None:
        self._call, self._hosts, self._task = call, hosts, task
        self._earlier = len(task.records)
        self._telling = Telling(call, task)
        self._driving = Driving(
            hosts, call, [task], self._choose, self._slice, self._taken, FINALS_SECONDS
        )

    @property
    def trials(self) -> int:
        """Number of candidates so far that ran."""
        return self._task.trials

    @property
    def measured(self) -> int:
        """The same, with those that were rejected before they ran."""
        return self._task.measured

    def search(self, view: LiveView) -> str:
        """Have hosts search; return why that ended."""
        self._view = view
        return self._driving.search() or self._why_over

    @property
    def _why_over(self) -> str:
        return self._telling.reason or "the search has nothing left"

    def _choose(self, able: Sequence[int]) -> int | None:
        return able[0] if able and not self._telling.reason else None

    def _slice(self, place: int) -> int:
        """Return the size of a slice: several for each host, so that they tell each other."""
        trials = self._call.trials
        if trials is None:
            return SLICE
        return max(min(SLICE, trials // (8 * self._hosts.at_once)), 4)

    def _taken(
        self, place: int, reply: HostReply, new: Sequence[Record] | None, trials: int
    ) -> None:
        if reply.how == UNTUNABLE:
            raise WorkloadError(f"{self._task.first.task.workload.name}: {reply.message}")
        if new is not None:
            self._telling.tell(new, self._view)

    def conclude(self, finished: str) -> None:
        """Have a host hold the finals."""
        self._task.stopped = self._telling.stopped
        self._driving.conclude(lambda _, serial: self._task.finals(serial, None, finished), [0])

    def result(self, finished: str, *, interrupted: bool = False) -> TuneResult:
        """Return the result so far."""
        return self._task.result(finished, self._earlier, interrupted=interrupted)


def tune_islands(
    call: Call,
    hosts: Hosts,
    stack: ExitStack,
    workload: Workload,
    given: Given,
    progress: bool | None,
    how: str,
    kept: str,
) -> TuneResult:
    """Tune one program on hosts; see ``tune``. The call was opened."""
    task = islands_of(call, given, given.pack(), stack, workload, most=lambda: hosts.at_once)
    task.open()
    if task.ending is not None and call.is_done(task.ending):
        return task.stored_result()
    call.budget.earlier = task.seconds
    tuning = Tuning(call, hosts, task)
    view = call.live_view(workload, task.records, progress)
    with Unfinished(tuning, workload.name, call.trials, how=how, kept=kept) as unfinished:
        with view:
            finished = tuning.search(view)
            view.enter("finals" if call.finals else "")
            tuning.conclude(finished)
        return tuning.result(finished)
    return unfinished.result


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
