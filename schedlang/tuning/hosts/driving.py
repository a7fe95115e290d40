"""The driver's loop: slices go out while hosts are free, and what they measured is stored."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from schedlang.database import Record
from schedlang.errors import DatabaseError, HostError
from schedlang.tuning.budget import FinalsPlan, describe_trials
from schedlang.tuning.hosts.hosted_run import HostedRun
from schedlang.tuning.hosts.hosts import Hosts
from schedlang.tuning.hosts.messages import (
    MEASURED,
    SEARCH,
    UNTUNABLE,
    GivenOrder,
    HostReply,
    Order,
)
from schedlang.tuning.session import Call

# Seconds that a host needs at most, for each record, to go on with a run that another one had.
_RESTORING = 0.005

# Seconds after the end of a search for slices that are under way to come back.
_GRACE = 10.0

# What ``Driving`` tells of a reply.
_Taken = tuple[int, HostReply, Sequence[Record] | None, int]


@dataclass
class Lane:
    """What one host has done so far.

    Attributes
    ----------
    slices, trials: numbers of them.
    seconds: that they took.
    latest: the place of the task that it had last.
    """

    slices: int = 0
    trials: int = 0
    seconds: float = 0.0
    latest: int = 0


class Driving:
    """Has hosts search tasks.

    Parameters
    ----------
    hosts: take the slices.
    call: of the session.
    tasks: what to search.
    choose: returns the place of the task that is to have another slice, of those that could, which
        it is given, or None.
    slice_of: returns the number of trials of a slice of a task.
    taken: is told of each reply, once it is stored: the place of its task, the reply, the records
        that are new, None for those after finals, and the task's trials with them.
    finals_seconds: planned seconds of the samples of a task's finals.

    Attributes
    ----------
    lanes: what each host has done, by its name.
    """

    def __init__(
        self,
        hosts: Hosts,
        call: Call,
        tasks: Sequence[HostedRun],
        choose: Callable[[Sequence[int]], int | None],
        slice_of: Callable[[int], int],
        taken: Callable[[int, HostReply, Sequence[Record] | None, int], None],
        finals_seconds: float,
    ) -> None:
        self._hosts, self._call, self._tasks = hosts, call, tasks
        self._choose, self._slice_of, self._taken = choose, slice_of, taken
        self._finals_seconds = finals_seconds
        if call.finals:
            call.budget.plan_finals(self._plan_finals)
        self._serials = itertools.count(1)
        # Whether results are compared, as the call says, and whether some host does.
        self._verify, self._compared = call.measuring.verified, False
        self._under_way: dict[int, tuple[int, Order]] = {}
        self.lanes: dict[str, Lane] = {}

    @property
    def trials(self) -> int:
        """Number of trials so far."""
        return sum(task.trials for task in self._tasks)

    @property
    def left(self) -> float:
        """Number of trials that are left, without those that are under way."""
        most = math.inf if self._call.trials is None else self._call.trials
        return most - self.trials - sum(task.planned for task in self._tasks)

    @property
    def _seconds_left(self) -> float:
        budget = self._call.budget
        return budget.search_deadline(self._call.finals > 0) - budget.clock.now()

    def _plan_finals(self) -> FinalsPlan:
        """Return what the finals would take now: those of several tasks go on at the same time."""
        trials = sum(lane.trials for lane in self.lanes.values())
        if not trials:
            return FinalsPlan(0.0, 0.0)
        seconds = sum(lane.seconds for lane in self.lanes.values())
        rounds = math.ceil(sum(bool(task.trials) for task in self._tasks) / self._hosts.at_once)
        preparation = (self._call.finals + 1) * seconds / trials
        preparation += _RESTORING * max(task.trials for task in self._tasks)
        return FinalsPlan(rounds * preparation, rounds * self._finals_seconds)

    def search(self) -> str:
        """Give out slices until trials or time are used up, or nothing is left; return why.

        Empty where no task has more to do.
        """
        until = self._call.budget.end + _GRACE
        while True:
            self._give_out()
            if not self._hosts.flying:
                break
            self._take(self._hosts.wait(until, self._examine))
            if self._call.budget.clock.now() >= until:
                self._abandon()
        if self._call.trials is not None and self.left <= 0:
            return describe_trials(self.trials, self._call.trials)
        over = self._seconds_left <= 0 or any(task.is_over for task in self._tasks)
        for task in self._tasks:
            task.is_over = over
        return self._call.budget.describe_end(self._call.finals > 0) if over else ""

    def _abandon(self) -> None:
        """Give up what is under way: time is over."""
        for order in self._hosts.abandon():
            place, _ = self._under_way.pop(order.serial)
            self._tasks[place].give_up()

    def _give_out(self) -> None:
        while self._hosts.free and self.left > 0 and (seconds := self._seconds_left) > 0:
            able = [place for place, task in enumerate(self._tasks) if task.may_begin]
            place = self._choose(able)
            trials = 0 if place is None else int(min(self._slice_of(place), self.left))
            if place is None or trials < 1:  # choosing it may have brought stored trials
                return
            self._send(place, self._tasks[place].order(next(self._serials), trials, seconds))

    def conclude(self, orders: Callable[[int, int], Order], places: Sequence[int]) -> None:
        """Have hosts hold the finals of some tasks: ``orders(place, serial)`` are theirs."""
        waiting, until = list(places), self._call.budget.end + _GRACE
        while waiting or self._hosts.flying:
            while waiting and self._hosts.free:
                place = waiting.pop(0)
                self._send(place, orders(place, next(self._serials)))
            self._take(self._hosts.wait(until, self._examine))
            if self._call.budget.clock.now() >= until:
                self._abandon()
                return

    def _take(self, found: Sequence[tuple[GivenOrder, HostReply]]) -> None:
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
            self._taken(*one)
        if failure is not None:
            raise failure

    def _examine(self, order: GivenOrder, reply: HostReply) -> None:
        """HostError for a reply that is not to be believed."""
        if not reply.verified and self._compared and self._verify is not False:
            raise HostError("it has not compared results, and others have")
        place, sent = self._under_way[order.serial]
        self._tasks[place].examine(sent, reply)

    def _store(self, serial: int, reply: HostReply) -> _Taken:
        """Store a reply; return what ``taken`` is told of it."""
        place, order = self._under_way.pop(serial)
        task = self._tasks[place]
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

    def _send(self, place: int, order: Order) -> None:
        self._under_way[order.serial] = place, order
        self._hosts.submit(order)
