"""The driver's side of a run: what it has of it goes out with orders, and replies are stored."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import groupby

from schedlang.database import Database, Record, RunHistory
from schedlang.database.parts import add_part, records_to_json
from schedlang.database.past_runs import as_history, details_of
from schedlang.database.programs import program_text
from schedlang.database.run import Ask, told
from schedlang.measurement import Status
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
from schedlang.tuning.session import Call, TaskRun, TunedTask
from schedlang.tuning.session.ending import Ending
from schedlang.tuning.session.resume import Journal

# Records of other runs with the same program that are sent at most, the newest ones.
_MOST_KNOWN = 4096


class HostedRun(TaskRun):
    """A run whose slices hosts take, one after the other.

    Parameters
    ----------
    task, call, stack: as in ``TaskRun``.
    text: of the task (``host.task_text``).
    packed: of the call (``Given.pack``).
    place: number of the run, and of all that search its task beside each other.

    Attributes
    ----------
    busy: whether a host has an order of it.
    knew: id of the newest record that the database had when it was opened.
    exhausted: whether its search has nothing left to propose.
    is_over: whether time has ended its search.
    idle: number of slices in a row that told its search nothing new.
    restarts: how often it was begun again since a slice measured something.
    stored_of: what the database has its records of (``what_is_measured``).
    """

    def __init__(
        self,
        task: TunedTask,
        call: Call,
        stack: ExitStack,
        text: bytes,
        packed: bytes,
        place: tuple[int, int] = (0, 1),
    ) -> None:
        super().__init__(task, call, stack)
        self._place = place
        self.busy = self.exhausted = self.is_over = self._keeps_default = False
        self.idle = self.restarts = 0
        self.stored_of: set[int | str] = set()
        self._text, self._packed = text, packed
        self._told: list[Record] = []
        self._trials = 0
        self._asks: list[Ask] = []
        self._blocks: list[Block] = []
        self._programs: list[bytes] = []
        self._state = State()
        self.knew = 0
        self._after = ""
        self._latest: list[int] = []
        self._unscheduled: Record | None = None
        self._latency = math.nan
        self._complete = True
        self._ordered = False

    def open(self) -> None:
        """Open the journal, and read what earlier calls have left."""
        if self._journal is not None:
            return
        super().open()
        journal, database = self._opened, self._call.database
        self._asks = database.asks(journal.id)
        own = database.query(run_id=journal.id)
        self.stored_of.update(map(what_is_measured, own))
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
        here = journal.run.workload_key
        self.knew = max(
            (one.id or 0 for one in known.values() if one.workload_key == here), default=0
        )

    # -- where it stands -------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether this call continued it, so that it needs an ending."""
        return self._ordered

    @property
    def may_begin(self) -> bool:
        """Whether another slice of it could begin now."""
        return not (self.busy or self.exhausted or self.is_over)

    @property
    def keeps_default(self) -> bool:
        """Whether the finals were won by the default schedule."""
        return self._keeps_default

    @property
    def records(self) -> Sequence[Record]:
        """What its search was told of, in order."""
        return self._told

    @property
    def blocks(self) -> Sequence[Block]:
        """The records of it, and what else makes measuring unnecessary, as they are sent."""
        return self._blocks

    @property
    def trials(self) -> int:
        """Number of candidates so far that ran, those of earlier calls included."""
        return self._trials

    @property
    def unscheduled_latency(self) -> float:
        """Latency of the unscheduled program, in seconds; NaN before it is known."""
        return self._latency

    @property
    def unscheduled_complete(self) -> bool:
        """Whether that is a latency, and no lower bound."""
        return self._complete

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

    def search_order(
        self,
        serial: int,
        trials: int,
        seconds: float,
        blocks: Sequence[Block],
        suggested: Sequence[Record],
    ) -> Order:
        """Return the order for a slice of this many trials.

        ``blocks`` have the records of the task's other runs, of which ``suggested`` are some.
        """
        return replace(
            self._order(serial, SEARCH, blocks, suggested),
            trials=trials,
            seconds=None if math.isinf(seconds) else seconds,
            suggested=[one.id or 0 for one in suggested],
        )

    def finals_order(
        self,
        serial: int,
        blocks: Sequence[Block],
        rivals: Sequence[Record],
        finals_seconds: float | None,
        finished: str,
    ) -> Order:
        """Return the order for the finals between its fastest programs and ``rivals``."""
        return replace(
            self._order(serial, FINALS, blocks, rivals),
            rivals=[one.id or 0 for one in rivals],
            finals_seconds=finals_seconds,
            finished=finished,
        )

    def _order(
        self, serial: int, what: str, blocks: Sequence[Block], named: Sequence[Record]
    ) -> Order:
        self.busy = self._ordered = True
        run, sent = self._opened.run, [*self._blocks, *blocks]
        known = {number for block in sent for number in block.ids}
        missing = blocks_of([one for one in named if one.id not in known])
        self._blocks += missing  # its search names them from now on
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
            blocks=[*sent, *missing],
            used=self._call.budget.used,
            place=self._place,
            toolchain=run.toolchain_key,
            programs=self._programs,
        )

    def take(self, reply: HostReply, host: int, known: Mapping[int | None, Record]) -> list[Record]:
        """Store what a host has done; return the records that its search was told of, in order.

        ``host`` is the number of the host, from 1; ``known`` are records of the task, by their ids.
        """
        self.busy = False
        assert reply.part is not None
        journal, database = self._opened, self._call.database
        part = replace(reply.part, details=reply.part.details.of_host(host))
        with database.transaction(through=bool(part.run.outcome)):
            if reply.again:
                journal.begin_again(part.run.known)
                self._state, self._asks = State(), []
                self.stored_of.clear()
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
        self.stored_of.update(map(what_is_measured, stored))
        self._after, self._latest = reply.token, new
        self._asks = [*self._asks, *part.asks]  # an order that is under way has the ones before
        if stored:
            self._blocks.append(Block(journal.id, new, reply.records))
        self.ending = journal.ending
        self.exhausted = self.exhausted or reply.ended
        self._unscheduled = next((one for one in stored if one.unscheduled), self._unscheduled)
        self._keeps_default = reply.keeps_default
        if reply.unscheduled is not None:
            self._latency, self._complete = reply.unscheduled, reply.complete
        found = self._named(reply, stored, known)
        if reply.whole:
            self._told, self._trials = [], 0
        self._tell(found)
        return found

    def _tell(self, records: Sequence[Record]) -> None:
        self._told += records
        self._trials += sum(one.status is not Status.REJECTED for one in records)

    def end(self, ending: Ending) -> None:
        """Keep how the run ended."""
        self._opened.finish(ending)
        self.ending = ending

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

    def _named(
        self, reply: HostReply, stored: Sequence[Record], known: Mapping[int | None, Record]
    ) -> list[Record]:
        """Return the records that a reply names, which may be of other runs."""
        ids = [stored[-1 - one].id if one < 0 else one for one in reply.told]
        new = {one.id: one for one in stored}
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
