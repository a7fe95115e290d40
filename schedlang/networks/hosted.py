"""``tune_network(hosts=)``: the tasks of networks on many hosts at the same time.

Slices go out while hosts are free, and what they measured is stored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from schedlang.database import Record
from schedlang.database.programs import program_text
from schedlang.errors import DatabaseError, HostError, SpaceError, WorkloadError
from schedlang.networks.display import Display, Lane
from schedlang.networks.network import Network
from schedlang.networks.network_session import (
    FEWEST,
    LEAST_FINALS,
    NOTHING_LEFT,
    NetworkSession,
    finals_seconds,
)
from schedlang.networks.network_tasks import SharedTask, SlicedTask, shares_of
from schedlang.search.tasks import TaskProgress, TaskScheduler
from schedlang.tuning.budget import FinalsPlan, describe_trials
from schedlang.tuning.hosts import Given, HostedRun, Hosts, task_text
from schedlang.tuning.hosts.messages import (
    MEASURED,
    SEARCH,
    UNTUNABLE,
    GivenOrder,
    HostReply,
    Order,
)
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.records import as_measurement
from schedlang.tuning.result import TuneResult
from schedlang.tuning.session import Call
from schedlang.tuning.session.callbacks import Watch
from schedlang.tuning.session.resume import RunState
from schedlang.tuning.tasks import why_untunable

# Seconds that a host needs at most, for each record, to go on with a run that another one had.
_RESTORING = 0.005
# Seconds after the end of a search for slices that are under way to come back.
_GRACE = 10.0

# What a stored reply tells: the place of its task, the reply, the records that are new, None for
# those after finals, and the task's trials with them.
_Taken = tuple[int, HostReply, Sequence[Record] | None, int]


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

    run: HostedRun

    def __init__(self, shared: SharedTask, run: HostedRun, call: Call) -> None:
        super().__init__(shared, run, call.is_final)
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


class HostedSession(NetworkSession):
    """One call of ``tune_network`` with hosts, after its arguments were checked.

    Parameters
    ----------
    networks, runs, call, scheduler, name, stored: as in ``NetworkSession``.
    hosts: take the slices.

    Attributes
    ----------
    lanes: what each host has done, by its name.
    """

    runs: Sequence[HostedTask]

    def __init__(
        self,
        networks: Sequence[Network],
        runs: Sequence[HostedTask],
        call: Call,
        scheduler: TaskScheduler,
        hosts: Hosts,
        *,
        name: str = "",
        stored: bool = False,
    ) -> None:
        super().__init__(networks, runs, call, scheduler, name=name, stored=stored)
        self._hosts = hosts
        if call.finals:
            call.budget.plan_finals(self._plan_finals)
        self._serials = itertools.count(1)
        # Whether results are compared, as the call says, and whether some host does.
        self._verify, self._compared = call.measuring.verified, False
        self._under_way: dict[int, tuple[int, Order]] = {}
        self.lanes: dict[str, Lane] = {}

    @property
    def _left(self) -> float:
        """Number of trials that are left, without those that are under way."""
        stored = sum(task.run.trials for task in self.runs)
        return self._trials - stored - sum(task.run.planned for task in self.runs)

    def _plan_finals(self) -> FinalsPlan:
        """Return what the finals would take now: those of several tasks go on at the same time."""
        trials = sum(lane.trials for lane in self.lanes.values())
        if not trials:
            return FinalsPlan(0.0, 0.0)
        seconds = sum(lane.seconds for lane in self.lanes.values())
        rounds = math.ceil(sum(bool(task.run.trials) for task in self.runs) / self._hosts.at_once)
        preparation = (self._call.finals + 1) * seconds / trials
        preparation += _RESTORING * max(task.run.trials for task in self.runs)
        return FinalsPlan(rounds * preparation, rounds * finals_seconds(len(self.runs)))

    def search(self, display: Display) -> str:
        """Give slices to hosts until trials or time are used up; return why it ended."""
        display.lanes = self.lanes
        until = self._call.budget.end + _GRACE
        while True:
            self._give_out()
            if not self._hosts.flying:
                break
            self._take(self._hosts.wait(until, self._examine), display)
            if self._call.budget.clock.now() >= until:
                self._abandon()
        finished = self._why_ended()
        for task in self.runs:
            task.reach_stored()
        return finished

    def _why_ended(self) -> str:
        trials = sum(task.run.trials for task in self.runs)
        if self._call.trials is not None and self._left <= 0:
            return describe_trials(trials, self._call.trials)
        over = self._seconds_left <= 0 or any(task.run.is_over for task in self.runs)
        for task in self.runs:
            task.run.is_over = over
        return self._over if over else NOTHING_LEFT

    def _abandon(self) -> None:
        """Give up what is under way: time is over."""
        for order in self._hosts.abandon():
            place, _ = self._under_way.pop(order.serial)
            self.runs[place].run.give_up()

    def _give_out(self) -> None:
        while self._hosts.free and self._left > 0 and (seconds := self._seconds_left) > 0:
            place = self._choose()
            trials = 0 if place is None else int(min(self._size_of(place), self._left))
            if place is None or trials < 1:  # choosing it may have brought stored trials
                return
            self._send(place, self.runs[place].run.order(next(self._serials), trials, seconds))

    def _choose(self) -> int | None:
        """Return the place of the task that is to have another slice, of those that could."""
        able = {place for place, task in enumerate(self.runs) if task.run.may_begin}
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

    def conclude(self, display: Display, finished: str) -> None:
        """Have hosts hold the finals of all tasks, those with the largest share first."""
        changed = [place for place, run in enumerate(self.runs) if run.is_open]
        if changed:
            display.say(f"finals of {len(changed)} tasks")
        parts = shares_of(self.runs).parts
        waiting = sorted(changed, key=lambda place: -parts[place])
        until = self._call.budget.end + _GRACE
        while waiting or self._hosts.flying:
            while waiting and self._hosts.free:
                place = waiting.pop(0)
                task = self.runs[place]
                seconds = finals_seconds(1 / parts[place]) if parts[place] else LEAST_FINALS
                why = task.finished or finished
                self._send(place, task.run.finals(next(self._serials), seconds, why))
            self._take(self._hosts.wait(until, self._examine), display)
            if self._call.budget.clock.now() >= until:
                self._abandon()
                return

    # -- replies ---------------------------------------------------------------------------------

    def _take(self, found: Sequence[tuple[GivenOrder, HostReply]], display: Display) -> None:
        """Store replies in one transaction, and tell of them; where one fails, those before it."""
        if not found:
            return
        stored, failure = list[_Taken](), None
        try:
            with self._call.database.transaction(through=False):
                for order, reply in found:
                    try:
                        stored.append(self._store(order.serial, reply))
                    except BaseException as error:
                        failure = error
                        break
        except DatabaseError as error:  # of the disk, before or now: nothing is stored
            if isinstance(failure, DatabaseError):
                raise failure from failure.__cause__ or error
            raise error from failure
        for one in stored:
            self._tell(*one, display)
        if failure is not None:
            raise failure

    def _examine(self, order: GivenOrder, reply: HostReply) -> None:
        """HostError for a reply that is not to be believed."""
        if not reply.verified and self._compared and self._verify is not False:
            raise HostError("it has not compared results, and others have")
        place, sent = self._under_way[order.serial]
        self.runs[place].run.examine(sent, reply)

    def _store(self, serial: int, reply: HostReply) -> _Taken:
        """Store a reply; return what it tells."""
        place, order = self._under_way.pop(serial)
        task = self.runs[place].run
        if reply.how == MEASURED:
            self._compared |= reply.verified
            # A measurer of the user's may compare nothing.
            self._call.measuring.verified = self._verify if self._compared else False
        if reply.how == UNTUNABLE:
            task.give_up()
            new: Sequence[Record] = ()
        else:
            new = task.take(order, reply, self._hosts.judge.number(reply.name))
            lane = self.lanes.setdefault(reply.name, Lane())
            lane.slices += 1
            lane.trials += len(new)
            lane.seconds += reply.seconds
            lane.latest = place
        return place, reply, new if order.what == SEARCH else None, task.trials

    def _tell(
        self,
        place: int,
        reply: HostReply,
        new: Sequence[Record] | None,
        trials: int,
        display: Display,
    ) -> None:
        """Tell a task, and who watches, of a reply that is stored."""
        run = self.runs[place]
        before = run.latency
        display.begin_slice(place)
        run.note(reply, new, trials, display)
        if new is not None and not run.failed:
            display.end_slice(place, before)

    def _send(self, place: int, order: Order) -> None:
        self._under_way[order.serial] = place, order
        self._hosts.submit(order)


def hosted_session(
    networks: Sequence[Network],
    tasks: Sequence[SharedTask],
    call: Call,
    stack: ExitStack,
    scheduler: TaskScheduler,
    given: Given,
    hosts: Hosts,
    *,
    name: str,
    stored: bool,
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
    return HostedSession(networks, runs, call, scheduler, hosts, name=name, stored=stored)
