"""The driver's side of a run that hosts search, one slice after the other.

What the driver has of it goes out with orders, and replies are stored.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby

from schedlang.database import Database, Record, RunHistory
from schedlang.database.parts import add_part, records_to_json
from schedlang.database.past_runs import as_history, details_of
from schedlang.database.programs import program_text, replayed
from schedlang.database.run import Ask, told
from schedlang.measurement import Status
from schedlang.measurement.measurement import reason_of
from schedlang.tuning.hosts.frames import deflate
from schedlang.tuning.hosts.messages import (
    FINALS,
    SEARCH,
    Block,
    HostReply,
    Order,
    State,
    what_is_measured,
)
from schedlang.tuning.hosts.replies import Examiner
from schedlang.tuning.result import Best, TuneResult
from schedlang.tuning.session import Call, TaskRun
from schedlang.tuning.session.ending import Ending
from schedlang.tuning.session.resume import Journal
from schedlang.tuning.tasks import TunedTask

# Records of other runs with the same program that are sent at most, the newest ones.
_MOST_KNOWN = 4096
# Slices in a row without a new record after which a search has nothing left.
_MOST_IDLE = 3


class HostedRun(TaskRun):
    """A run whose slices hosts take, one after the other.

    Parameters
    ----------
    task, call, stack: as in ``TaskRun``.
    text: of the task (``host.task_text``).
    packed: of the call (``Given.pack``).
    own: whether hosts measure with the target's own measurer.

    Attributes
    ----------
    planned: number of trials of the slice that is under way.
    exhausted: whether its search has nothing left to propose.
    is_over: whether time has ended its search.
    stopped: identity of the stop rule that ended the search; empty if none did.
    """

    def __init__(
        self,
        task: TunedTask,
        call: Call,
        stack: ExitStack,
        text: bytes,
        packed: bytes,
        *,
        own: bool,
    ) -> None:
        super().__init__(task, call, stack)
        self.exhausted = self.is_over = self._keeps_default = False
        self._busy = self._concluded = False
        self.planned = 0
        self.stopped = ""
        # Slices in a row that told the search nothing new, and how often it was begun again since
        # one measured something.
        self._idle = self._restarts = 0
        # What the database has its records of (``what_is_measured``).
        self._stored_of: set[int | str] = set()
        self._examiner = Examiner(self, call, own=own)
        self._text, self._packed = text, packed
        # What its searches were told of, by id; the last one of them of ``_told``.
        self._records: dict[int | None, Record] = {}
        self._told: list[Record] = []
        self._trials = 0
        self._asks: list[Ask] = []
        self._blocks: list[Block] = []
        self._programs: list[bytes] = []
        self._state = State()
        self._after = ""
        self._latest: list[int] = []
        self._unscheduled: Record | None = None
        self._latency = math.nan
        self._complete = True  # it is a latency, and no lower bound
        self._ordered = False

    def open(self) -> None:
        """Open the journal, and read what earlier calls have left."""
        if self._journal is not None:
            return
        super().open()
        journal, database = self._opened, self._call.database
        self._asks = database.asks(journal.id)
        own = database.query(run_id=journal.id)
        self._stored_of.update(map(what_is_measured, own))
        # What finals added to it, and the other runs of the task, is in the outcome only.
        ids = told(replace(journal.run, outcome="") if journal.run.state else journal.run)
        others = database.get(set(ids) - {one.id for one in own})
        by_id = {one.id: one for one in (*own, *others)}
        named = [by_id[number] for number in ids if number in by_id]
        later = [one for one in own if one.id not in ids and one.proposal is not None]
        self._tell([*named, *later])
        self._unscheduled = next((one for one in own if one.unscheduled), None)
        if self._unscheduled is None and self._past is not None:
            self._unscheduled = self._past.find_unscheduled()
        if self._unscheduled is not None:
            self._latency = self._unscheduled.latency
        if journal.run.state:
            self._state = State(deflate(journal.run.state), (), journal.run.state_asks)
        known = {one.id: one for one in (*own, *others, *self._known_elsewhere())}
        self._blocks = blocks_of(sorted(known.values(), key=lambda one: one.id or 0))

    # -- where it stands -------------------------------------------------------------------------

    @property
    def is_known(self) -> bool:
        """Whether the call continues what the database has of it."""
        call = self._call
        if not call.journaled or call.remeasure:
            return False
        return call.database.find_run(self.identity) is not None

    @property
    def is_open(self) -> bool:
        """Whether it needs an ending: this call continued it, or one that was interrupted did."""
        if self._ordered or self._concluded or not self._records:
            return self._ordered or self._concluded
        return self.ending is None or not self._records.keys() <= set(self.ending.records)

    @property
    def may_begin(self) -> bool:
        """Whether another slice of it could begin now."""
        return not (self._busy or self.exhausted or self.is_over)

    @property
    def out_of_time(self) -> bool:
        """Whether the budget ended the search."""
        return self.is_over

    @property
    def keeps_default(self) -> bool:
        """Whether the finals were won by the default schedule."""
        return self._keeps_default

    @property
    def records(self) -> Sequence[Record]:
        """What its searches were told of, in order."""
        return list(self._records.values())

    @property
    def trials(self) -> int:
        """Number of candidates so far that ran, those of earlier calls included."""
        return self._trials

    @property
    def measured(self) -> int:
        """The same, with those that were rejected before they ran."""
        return len(self._records)

    @property
    def unscheduled_latency(self) -> float:
        """Latency of the unscheduled program, in seconds; NaN before it is known."""
        return self._latency

    def find_unscheduled(self) -> Record | None:
        """Return a record of the unscheduled program, of this run or of another, if any."""
        return self._unscheduled

    @property
    def _opened(self) -> Journal:
        assert self._journal is not None
        return self._journal

    def _known_elsewhere(self) -> list[Record]:
        """Return records of other runs that make measuring unnecessary, and those to start from."""
        if self._past is None:
            return []
        run, database = self._opened.run, self._call.database
        keys = (run.workload_key, run.target_key, run.toolchain_key)
        found: list[Record] = []
        if self._past.reuses:
            found = [one for one in database.query(*keys) if one.run_id != run.id][-_MOST_KNOWN:]
        if not self._state.frame:
            past = self._past.learned_from(None if self.is_new else run.known)
            if not self._past.reuses:  # what the database holds of the program itself is ignored
                past = [one for one in past if one.workload_key != run.workload_key]
            others = {one.workload_key for one in past} - {run.workload_key}
            self._programs = [_program_text(database, key) for key in sorted(others)]
            found += past
        return found

    # -- orders ----------------------------------------------------------------------------------

    def order(self, serial: int, trials: int, seconds: float) -> Order:
        """Return the order for a slice of this many trials; call it where ``may_begin``."""
        self.planned = trials
        return replace(
            self._order(serial, SEARCH),
            trials=trials,
            seconds=None if math.isinf(seconds) else seconds,
        )

    def finals(self, serial: int, finals_seconds: float | None, finished: str) -> Order:
        """Return the order for the finals between its fastest programs."""
        order = self._order(serial, FINALS)
        return replace(order, finals_seconds=finals_seconds, finished=finished)

    def _order(self, serial: int, what: str) -> Order:
        self._busy = self._ordered = True
        run = self._opened.run
        return Order(
            serial,
            what,
            self._packed,
            self._text,
            run,
            self._asks,
            after=self._after,
            latest=self._latest,
            state=self._state,
            blocks=[*self._blocks],
            used=self._call.budget.used,
            toolchain=run.toolchain_key,
            programs=self._programs,
        )

    def give_up(self) -> None:
        """Forget the order that is under way: its program cannot be tuned, or time is over."""
        self._busy, self.planned = False, 0

    def examine(self, order: Order, reply: HostReply) -> None:
        """HostError for a reply that says what cannot be, of what this process knows."""
        self._examiner.examine(order, reply, self._stored_of)

    def take(self, order: Order, reply: HostReply, host: int) -> list[Record]:
        """Store what a host, with this number, has done; return the records that are new."""
        self.give_up()
        had = {one.id for one in self._told}
        found = self._store(reply, host)
        if reply.whole:
            self._told = []
        new = self._tell(found)
        if order.what == FINALS:
            if self.ending is not None:
                self._conclude(self.ending)
            return new
        self.is_over = reply.cut
        # Slices whose records are all known need no measuring: they have to end some time.
        idle = not reply.cut and not reply.again and all(one.id in had for one in found)
        self._idle = self._idle + 1 if idle else 0
        self._restarts = 0 if new else self._restarts + reply.again
        self.exhausted |= reply.ended or max(self._idle, self._restarts) >= _MOST_IDLE
        return new

    def _store(self, reply: HostReply, host: int) -> list[Record]:
        """Store what a host has done; return the records that its search was told of, in order."""
        assert reply.part is not None
        journal, database = self._opened, self._call.database
        part = replace(reply.part, details=reply.part.details.of_host(host))
        with database.transaction(through=bool(part.run.outcome)):
            if reply.again:
                journal.begin_again(part.run.known)
                self._state, self._asks = State(), []
                self._stored_of.clear()
            if reply.state:
                part = replace(part, run=replace(part.run, state=reply.saved))
            stored, run = add_part(database, part, journal.id, {"host": reply.name})
            new = [one.id or 0 for one in stored]
            if reply.state:
                self._state = State(reply.state, new, run.state_asks)
            else:  # what was saved before is still right
                run = replace(run, state=journal.run.state, state_asks=journal.run.state_asks)
                database.update_run(run)
        journal.run = replace(
            journal.run, state=run.state, state_asks=run.state_asks, outcome=run.outcome
        )
        self._stored_of.update(map(what_is_measured, stored))
        self._after, self._latest = reply.token, new
        self._asks = [*self._asks, *part.asks]  # an order that is under way has the ones before
        if stored:
            self._blocks.append(Block(journal.id, new, reply.records))
        self.ending = journal.ending
        self._unscheduled = next((one for one in stored if one.unscheduled), self._unscheduled)
        self._keeps_default = reply.keeps_default
        if reply.unscheduled is not None:
            self._latency, self._complete = reply.unscheduled, reply.complete
        return self._named(reply, stored)

    def _tell(self, records: Sequence[Record]) -> list[Record]:
        """Keep what the search was told of; return the records that are new."""
        self._told += records
        new = [one for one in records if one.id not in self._records]
        self._records |= {one.id: one for one in new}
        self._trials += sum(one.status is not Status.REJECTED for one in new)
        return new

    # -- the end ---------------------------------------------------------------------------------

    def _conclude(self, ending: Ending) -> None:
        """Keep how it ended, with the records of all searches, of which it may have begun two."""
        self._concluded = True
        last = {one.id for one in self._told}
        failed = (one for one in self.records if not one.ok and one.id not in last)
        rejected = Counter(ending.rejected)
        rejected.update(reason_of(one.status, one.message) for one in failed)
        self.ending = replace(
            ending,
            records=[number for number in self._records if number is not None],
            trials=self.trials,
            exhausted=self.exhausted,
            limit=self._call.budget.seconds if self.is_over else None,
            rejected=rejected,
            stopped=self.stopped,
        )
        self._opened.finish(self.ending)

    def result_with(self, finished: str, earlier: int, *, interrupted: bool = False) -> TuneResult:
        """Return the result: that of the finals, or the fastest so far where none were held.

        ``earlier`` is the number of records that were there before this call.
        """
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
            _history=self.history(found.records, finished),
        )

    def _so_far(self, finished: str) -> TuneResult:
        workload, unscheduled = self.task.workload, self._unscheduled
        won = self.that_may_win(self.records)
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
            reference_complete=self._complete,
            unscheduled=unscheduled,
        )

    def history(self, records: Sequence[Record], finished: str) -> RunHistory:
        """Return a history of these records, all of which count as the run's own."""
        run, database = self._opened.run, self._call.database
        return as_history(
            run,
            self.task.workload.name,
            [replace(one, run_id=run.id) for one in records],
            self._unscheduled,
            details_of(database, run, records),
            database.finals(run.workload_key, run.target_key, run.toolchain_key),
            finished,
            program_text(self.task.workload),
        )

    def _named(self, reply: HostReply, stored: Sequence[Record]) -> list[Record]:
        """Return the records that a reply names, which may be of other runs."""
        ids = [stored[-1 - one].id if one < 0 else one for one in reply.told]
        new = {one.id: one for one in stored}
        known = self._records
        missing = {one for one in ids if one is not None and one not in new and one not in known}
        if missing:
            new |= {one.id: one for one in self._call.database.get(missing)}
        return [new.get(number) or known[number] for number in ids]


def blocks_of(records: Sequence[Record]) -> list[Block]:
    """Return records as they are sent, in their order: one block for those of a run in a row."""
    return [
        Block(run or 0, [one.id or 0 for one in found], deflate(records_to_json(found)))
        for run, found in ((run, [*some]) for run, some in groupby(records, lambda one: one.run_id))
    ]


def _program_text(database: Database, key: str) -> bytes:
    """Return what a database has of a program, as it is sent."""
    names = dict(database.workloads())
    row = [key, names[key], database.get_workload(key), *database.structural_keys(key)]
    return deflate(json.dumps({"row": row}))
