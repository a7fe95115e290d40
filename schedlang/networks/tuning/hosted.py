"""``tune_network(hosts=)``: the tasks of networks on many hosts at the same time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import ExitStack, suppress

from schedlang.database import Record
from schedlang.database.programs import program_text
from schedlang.errors import SpaceError, WorkloadError
from schedlang.networks.network import Network
from schedlang.networks.tuning.display import Display
from schedlang.networks.tuning.network_session import FEWEST, LEAST_FINALS, Session, finals_seconds
from schedlang.networks.tuning.network_tasks import SharedTask, SlicedTask, shares_of
from schedlang.search.tasks import TaskProgress, TaskScheduler
from schedlang.tuning.hosts import Driving, Given, HostedRun, Hosts, task_text
from schedlang.tuning.hosts.messages import UNTUNABLE, HostReply, Order
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import as_measurement
from schedlang.tuning.result import TuneResult
from schedlang.tuning.session import Call
from schedlang.tuning.session.callbacks import Watch
from schedlang.tuning.session.resume import RunState
from schedlang.tuning.session.tasks import why_untunable


class HostedTask(SlicedTask):
    """A task whose slices hosts take, one after the other.

    Parameters
    ----------
    shared: the task, and how often networks call it.
    run: of the task.
    call: of the session.

    Attributes
    ----------
    run: as given.
    """

    def __init__(self, shared: SharedTask, run: HostedRun, call: Call) -> None:
        super().__init__(shared, run, call.is_final)
        self.run = run
        self._call = call
        self._watch: Watch | None = None
        self._compared = False
        self._earlier_count = 0

    def progress_if(self, able: bool) -> TaskProgress:
        """Return what a scheduler knows of it, slices under way included.

        Unless it is ``able`` to begin another slice, it counts as finished.
        """
        finished = bool(self.finished or self.failed) or not able
        return self._progress_after(self.trials + self.run.planned, finished)

    def is_ready(self, trials: int) -> bool:
        """Whether a slice of it needs a host; opened first.

        What earlier calls measured comes in slices that need none, and whose history is what it
        was then.
        """
        self._begin()
        if self.failed:
            return False
        stored = self.run.trials
        if self.trials < stored and not self.run.planned:
            self._reach(min(self.trials + trials, stored))
            return False
        if self._exhausted or self.run.exhausted:
            self.finished = self.finished or "the search has nothing left"
            return False
        if self._watch is not None and self._watch.reason:
            self.finished = self._watch.reason
            return False
        return True

    def _begin(self) -> None:
        """Open it; a program that cannot be tuned sets ``failed``."""
        if self._opened or self.failed:
            return
        try:
            self._open()
            self._earlier_count = len(self.run.records)
            self._watch = self._made_watch()
        except (WorkloadError, SpaceError) as error:
            self.failed = why_untunable(error)

    def reach_stored(self) -> None:
        """Count what earlier calls have measured, where the search ended before."""
        with suppress(WorkloadError, SpaceError):
            if not self.failed and self.run.is_known:
                self._begin()
        if self.run.trials > self.trials:
            self._reach(self.run.trials)

    def _reach(self, trials: int) -> None:
        self.trials = trials
        self.history.append((trials, self._best_of(trials)))

    def note(
        self, reply: HostReply, new: Sequence[Record] | None, trials: int, display: Display
    ) -> None:
        """Take note of what a host has done: of new records, None after finals, and all trials."""
        if reply.how == UNTUNABLE:
            self.failed = reply.message
            return
        self._unscheduled = self.run.unscheduled_latency
        if new is None:
            return
        self._reach(trials)
        if self._watch is not None:
            self._tell(self._watch, new, display)
            self.finished = self._watch.reason or self.finished
            self.run.stopped = self._watch.stopped
        if self.run.exhausted:
            self.finished = self.finished or reply.message

    def _made_watch(self) -> Watch:
        """Return what tells callbacks and stop rules of what hosts have measured."""
        call, run = self._call, self.run
        leaderboard = Leaderboard(1, verified=call.measuring.verified is not False)
        workload, strategy = run.task.workload, run.strategy
        state = RunState(workload, strategy, leaderboard, records=list(run.records))
        return Watch(call.steps, state, call.target, call.budget)

    def _tell(self, watch: Watch, records: Sequence[Record], display: Display) -> None:
        """Tell of new records, in the order of arrival."""
        for record in records:
            display.update(as_measurement(record, record.proposal or 0), self.run.strategy)
            watch.see(record)
        latency = self.run.unscheduled_latency
        if not self._compared and latency > 0:
            self._compared = True
            display.compare_with(latency, complete=True)

    @property
    def _records(self) -> Sequence[Record]:
        return self.run.records

    def result(self, finished: str) -> TuneResult | None:
        """Return the result so far; None where nothing was opened or the task failed."""
        if self.is_open:
            return self.run.result_with(self.finished or finished, self._earlier_count)
        return None if self.run.ending is None else self.run.stored_result()


class HostedSession(Session):
    """One call of ``tune_network`` with hosts, after its arguments were checked."""

    runs: Sequence[HostedTask]

    def __init__(
        self,
        networks: Sequence[Network],
        runs: Sequence[HostedTask],
        call: Call,
        scheduler: TaskScheduler,
        hosts: Hosts,
    ) -> None:
        super().__init__(networks, runs, call, scheduler)
        self.runs, self._hosts = runs, hosts
        self._driving = Driving(
            hosts,
            call,
            [run.run for run in runs],
            self._choose,
            self._size_of,
            self._taken,
            finals_seconds(len(runs)),
        )

    def search(self, display: Display) -> str:
        """Give slices to hosts until trials or time are used up; return why it ended."""
        self._display = display
        display.lanes = self._driving.lanes
        finished = self._driving.search()
        for run in self.runs:
            run.reach_stored()
        return finished or "no task is left that more trials could help"

    def _choose(self, able: Collection[int]) -> int | None:
        able = frozenset(able)
        while True:
            progress = [run.progress_if(place in able) for place, run in enumerate(self.runs)]
            place = self._scheduler.next(progress)
            if place is None or self.runs[place].is_ready(self._size_of(place)):
                return place

    def _size_of(self, place: int) -> int:
        run = self.runs[place]
        most = run.progress.most
        size = self._slice
        # Where hosts are many, the scheduler should soon know which tasks deserve them.
        if self._hosts.at_once > 1 and not run.history:
            size = max(size // 2, FEWEST)
        size = self._first_slice(run, size)
        return size if most is None else min(size, max(most - run.trials, 1))

    def _taken(
        self, place: int, reply: HostReply, new: Sequence[Record] | None, trials: int
    ) -> None:
        run = self.runs[place]
        before = run.latency
        self._display.begin_slice(place)
        run.note(reply, new, trials, self._display)
        if new is not None and not run.failed:
            self._display.end_slice(place, before)

    def conclude(self, display: Display, finished: str) -> None:
        """Have hosts hold the finals of all tasks, those with the largest share first."""
        changed = [place for place, run in enumerate(self.runs) if run.is_open]
        if changed:
            display.say(f"finals of {len(changed)} tasks")
        parts = shares_of(self.runs).parts

        def order(place: int, serial: int) -> Order:
            run = self.runs[place]
            seconds = finals_seconds(1 / parts[place]) if parts[place] else LEAST_FINALS
            return run.run.finals(serial, seconds, run.finished or finished)

        self._driving.conclude(order, sorted(changed, key=lambda place: -parts[place]))


def hosted_session(
    networks: Sequence[Network],
    tasks: Sequence[SharedTask],
    call: Call,
    stack: ExitStack,
    scheduler: TaskScheduler,
    given: Given,
    hosts: Hosts,
) -> HostedSession:
    """Return the session that has hosts tune the tasks."""
    packed, own = given.pack(), given.measures_itself
    runs = []
    for shared in tasks:
        workload, moves_data = shared.task.workload, shared.task.moves_data
        task = given.task(workload, call.seed, moves_data=moves_data)
        text = task_text(workload, program_text(workload), moves_data=moves_data)
        run = HostedRun(task, call, stack, text, packed, own=own)
        runs.append(HostedTask(shared, run, call))
    return HostedSession(networks, runs, call, scheduler, hosts)
