"""A task that hosts search: one run of it, or several beside each other.

Each run searches with a seed of its own and is told what the others have measured, so that no
program is measured twice, and where they were fastest. So more hosts can search one task than a
search can propose programs for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from schedlang.database import Record
from schedlang.database.programs import replayed
from schedlang.measurement import Status
from schedlang.measurement.measurement import reason_of
from schedlang.tuning.hosts.hosted_run import HostedRun
from schedlang.tuning.hosts.messages import FINALS, Block, HostReply, Order
from schedlang.tuning.hosts.replies import Examiner
from schedlang.tuning.result import Best, TuneResult
from schedlang.tuning.session import Call
from schedlang.tuning.session.ending import Ending

# Slices in a row without a new record after which a search has nothing left.
_MOST_IDLE = 3

STRIDE = 1_000_003
"""What the seeds of two runs of a task differ by."""


class Islands:
    """The runs of a task.

    Parameters
    ----------
    make_run: makes the run with the given number.
    call: of the session.
    most: returns the number of runs that may be beside each other now.
    own: whether hosts measure with the target's own measurer.

    Attributes
    ----------
    runs: those that were opened.
    records: what their searches were told of, each program once, in the order of arrival.
    trials: number of them that ran.
    planned: number of trials of the slices that are under way.
    doubles: number of programs that two of them measured.
    stopped: identity of the stop rule that ended the search; empty if none did.
    out_of_time: whether the budget ended it.
    """

    def __init__(
        self,
        make_run: Callable[[int], HostedRun],
        call: Call,
        most: Callable[[], int],
        *,
        own: bool = False,
    ) -> None:
        self._make_run, self._call, self._most = make_run, call, most
        self.runs: list[HostedRun] = [make_run(0)]
        self.records: list[Record] = []
        self.trials = self.doubles = self.planned = 0
        self._keys: set[str] = set()
        self._known: dict[int | None, Record] = {}
        self._suggested: set[str] = set()
        self._orders: dict[int, tuple[HostedRun, int]] = {}
        self._examiner = Examiner(self.first, call, own=own)
        self._opened = self._concluded = False
        self.stopped = ""
        self.out_of_time = False

    # -- as one run ------------------------------------------------------------------------------

    @property
    def first(self) -> HostedRun:
        """The run that ends with the result."""
        return self.runs[0]

    def open(self) -> None:
        """Open the runs that the database has."""
        if self._opened:
            return
        self._opened = True
        self.first.open()
        database = self._call.database
        while True:
            another = self._make_run(len(self.runs))
            if self._call.remeasure or database.find_run(another.identity) is None:
                break
            another.open()
            self.runs.append(another)
        for run in self.runs:
            self._note(run.records)

    @property
    def is_known(self) -> bool:
        """Whether the call continues what the database has of it."""
        call = self._call
        if not call.journaled or call.remeasure:
            return False
        return call.database.find_run(self.first.identity) is not None

    @property
    def ending(self) -> Ending | None:
        """How an earlier call ended; None where it did not."""
        return self.first.ending

    @property
    def is_new(self) -> bool:
        """Whether no earlier call has measured anything."""
        return self.first.is_new

    @property
    def is_open(self) -> bool:
        """Whether it needs an ending: this call continued it, or one that was interrupted did."""
        if not self._opened or not self.records or self._concluded:
            return self._concluded or any(run.is_open for run in self.runs)
        ending = self.ending
        return ending is None or not self._known.keys() <= set(ending.records)

    @property
    def measured(self) -> int:
        """The same, with those that were rejected before they ran."""
        return len(self.records)

    @property
    def seconds(self) -> float:
        """Wall time that earlier calls had used."""
        return max(run.seconds for run in self.runs)

    @property
    def is_over(self) -> bool:
        """Whether time has ended a search."""
        return any(run.is_over for run in self.runs)

    @property
    def exhausted(self) -> bool:
        """Whether no search has anything left to propose."""
        return all(run.exhausted for run in self.runs)

    @property
    def unscheduled_latency(self) -> float:
        """Latency of the unscheduled program, in seconds; NaN before it is known."""
        known = [run.unscheduled_latency for run in self.runs]
        return next((one for one in known if not math.isnan(one)), math.nan)

    def best_of(self, records: Sequence[Record]) -> float:
        """Return the lowest latency of records that may win, in seconds; NaN without any."""
        return self.first.best_of(records)

    @property
    def most(self) -> int:
        """Number of runs that may be beside each other now."""
        return self._most()

    # -- slices ----------------------------------------------------------------------------------

    @property
    def may_begin(self) -> bool:
        """Whether another slice could begin now."""
        return any(run.may_begin for run in self.runs) or self._grows

    @property
    def _grows(self) -> bool:
        """Whether another run may begin beside the others: the first one has to begin alone."""
        if self.exhausted or self.is_over:
            return False
        return bool(self.records) and len(self.runs) < self.most

    def _next(self) -> int | None:
        """Return the number of the run that is next: of idle ones that with the fewest trials.

        That of a new run where all are busy.
        """
        idle = [k for k, run in enumerate(self.runs) if run.may_begin]
        if idle:
            return min(idle, key=lambda k: (self.runs[k].trials, k))
        return len(self.runs) if self._grows else None

    def order(self, serial: int, trials: int, seconds: float) -> Order:
        """Return the order for a slice of this many trials; call it where ``may_begin``."""
        place = self._next()
        assert place is not None
        if place == len(self.runs):
            run = self._make_run(place)
            run.open()
            self.runs.append(run)
        run = self.runs[place]
        order = run.search_order(
            serial, trials, seconds, self._blocks_for(run), self._suggested_to(run)
        )
        self._orders[serial] = run, trials
        self.planned += trials
        return order

    def finals(self, serial: int, finals_seconds: float | None, finished: str) -> Order:
        """Return the order for the finals between the fastest programs of all runs."""
        run = self.first
        rivals = self._fastest_besides(run)[: self._call.finals + 1]
        order = run.finals_order(serial, self._blocks_for(run), rivals, finals_seconds, finished)
        self._orders[serial] = run, 0
        return order

    def examine(self, order: Order, reply: HostReply) -> None:
        """HostError for a reply that says what cannot be, of what this process knows."""
        run, _ = self._orders[order.serial]
        self._examiner.examine(order, reply, run, self.records)

    def take(self, order: Order, reply: HostReply, host: int) -> list[Record]:
        """Store what a host, with this number, has done; return the records that are new."""
        run = self._end(order)
        had = {one.id for one in run.records}
        found = run.take(reply, host, self._known)
        new = self._note(found)
        if order.what == FINALS:
            if run.ending is not None:
                self._conclude(run, run.ending)
            return new
        run.is_over = reply.cut
        # Slices whose records are all known need no measuring: they have to end some time.
        idle = not reply.cut and not reply.again and all(one.id in had for one in found)
        run.idle = run.idle + 1 if idle else 0
        run.restarts = 0 if new else run.restarts + reply.again
        run.exhausted = run.exhausted or max(run.idle, run.restarts) >= _MOST_IDLE
        return new

    def _conclude(self, run: HostedRun, ending: Ending) -> None:
        """Keep how the task ended: the first run's ending has the records of all."""
        self._concluded = True
        ids = {one.id: None for one in self.records if one.id is not None}
        own = {one.id for one in run.records}
        failed = (one for one in self.records if not one.ok and one.id not in own)
        rejected = Counter(ending.rejected)
        rejected.update(reason_of(one.status, one.message) for one in failed)
        budget = self._call.budget
        ending = replace(
            ending,
            records=list(ids | dict.fromkeys(ending.records)),
            trials=self.trials,
            exhausted=self.exhausted,
            limit=budget.seconds if self.out_of_time else None,
            rejected=rejected,
            stopped=self.stopped,
        )
        run.end(ending)
        for other in self.runs[1:]:
            other.end(_beside(other, run))

    def give_up(self, order: Order) -> None:
        """Forget an order whose program cannot be tuned."""
        self._end(order).busy = False

    def _end(self, order: Order) -> HostedRun:
        """Take an order off those under way; return its run."""
        run, trials = self._orders.pop(order.serial)
        self.planned -= trials
        return run

    def _note(self, records: Sequence[Record]) -> list[Record]:
        """Keep the records that no run has had; count the programs that two have measured."""
        new = []
        for record in records:
            if record.id in self._known:
                continue
            self._known[record.id] = record
            self.doubles += record.program_key in self._keys
            self._keys.add(record.program_key)
            self.trials += record.status is not Status.REJECTED
            self.records.append(record)
            new.append(record)
        return new

    def _blocks_for(self, run: HostedRun) -> list[Block]:
        """Return what other runs have measured since a run was opened."""
        return [
            block
            for other in self.runs
            if other is not run
            for block in other.blocks
            if block.ids and block.ids[0] > run.knew
        ]

    def _suggested_to(self, run: HostedRun) -> list[Record]:
        """Return the record of a program that a run should go on from, if there is one.

        It is faster than all that the run has measured, and was suggested to no other: searches
        that go on from one place measure the same.
        """
        fastest = self._fastest_besides(run)
        own = self.best_of(run.records) if fastest else math.nan
        for record in fastest:
            if record.most >= own:
                break
            if record.program_key not in self._suggested:
                self._suggested.add(record.program_key)
                return [record]
        return []

    def _fastest_besides(self, run: HostedRun) -> list[Record]:
        """Return the records that may win and that a run has not been told of, fastest first."""
        if len(self.runs) == 1:
            return []
        own = {one.program_key for one in run.records}
        won = self.first.that_may_win(self.records)
        found: dict[str, Record] = {}
        for record in sorted(won, key=lambda one: one.most):
            if record.program_key not in own:
                found.setdefault(record.program_key, record)
        return list(found.values())

    # -- the end ---------------------------------------------------------------------------------

    @property
    def keeps_default(self) -> bool:
        """Whether the finals were won by the default schedule."""
        return self.first.keeps_default

    def stored_records(self) -> tuple[Sequence[Record], Record | None]:
        """Return the records of a run that ended, and that of the unscheduled program."""
        return self.first.stored_records()

    def find_unscheduled(self) -> Record | None:
        """Return a record of the unscheduled program, if any."""
        return self.first.find_unscheduled()

    def stored_result(self) -> TuneResult:
        """Return the result of the call that ended it."""
        return self.first.stored_result()

    def result(self, finished: str, earlier: int, *, interrupted: bool = False) -> TuneResult:
        """Return the result: that of the finals, or the fastest so far where none were held."""
        ended = self._concluded and not interrupted
        found = self.stored_result() if ended else self._so_far(finished)
        seconds = self._call.budget.elapsed
        return replace(
            found,
            seconds=seconds,
            time_split={"other": seconds},
            earlier=earlier,
            interrupted=interrupted,
            core_use=None,
            _history=self.first.history(found.records, finished),
        )

    def _so_far(self, finished: str) -> TuneResult:
        workload = self.first.task.workload
        unscheduled = self.find_unscheduled()
        won = self.first.that_may_win(self.records)
        won += [] if unscheduled is None else [unscheduled]
        best = None
        for record in sorted(won, key=lambda one: one.most):
            schedule = replayed(record, workload)
            if schedule is not None and (
                record.unscheduled or schedule.program_key == record.program_key
            ):
                best = Best(record, schedule.trace, self._call.target)
                break
        failed = Counter(reason_of(one.status, one.message) for one in self.records if not one.ok)
        return TuneResult(
            workload,
            self.records,
            failed,
            (),
            self.unscheduled_latency,
            0.0,
            finished,
            best,
            reference_complete=self.first.unscheduled_complete,
            unscheduled=unscheduled,
        )


def _beside(run: HostedRun, first: HostedRun) -> Ending:
    """Return the ending of a run whose results are in that of the first."""
    return Ending(
        finished=f"searched beside run {first.journal_id}, whose result has its records",
        exhausted=run.exhausted,
        limit=None,
        records=[one.id for one in run.records if one.id is not None],
        reference=run.unscheduled_latency,
        seconds=run.seconds,
        rejected={},
        culprits=[],
        winner=None,
        runner_up=None,
        trace="",
        finals={},
        split={},
        trials=run.trials,
        beside=first.identity,
    )
