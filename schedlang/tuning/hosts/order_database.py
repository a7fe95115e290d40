"""The database of a run on a host: what the driver's has of it, with ids of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from schedlang.database import Database, Record
from schedlang.database.parts import read_part, records_to_json
from schedlang.database.run import renumbered
from schedlang.tuning.hosts.frames import deflate, inflate
from schedlang.tuning.hosts.messages import Block, HostReply, Order
from schedlang.tuning.session import TaskRun


class OrderDatabase:
    """The database of an order: what the driver's has of the run, with ids of its own.

    Parameters
    ----------
    database: empty; it is filled.
    order: tells what with.
    """

    def __init__(self, database: Database, order: Order) -> None:
        self._database = database
        # Ids here by the driver's, and the number of asks that the driver has.
        self._ids: dict[int, int] = {}
        self._asks = len(order.asks)
        records = _records_of(order.blocks)
        # Ids grow as the driver's do, so that "up to this id" means the same.
        ids = {number: place for place, number in enumerate(sorted(records), start=1)}
        for text in order.programs:
            database.put_workload(*json.loads(inflate(text))["row"])
        state = order.state
        run = replace(
            order.run,
            id=None,
            owner="",
            known=max((new for old, new in ids.items() if old <= order.run.known), default=0),
            state=inflate(state.frame) if state.frame else "",
            state_asks=state.asks,
        )
        named = ids | {new: ids[number] for new, number in state.ids.items()}
        with database.transaction():
            self._run = database.add_run(renumbered(run, named))
            self._runs = {order.run.id or 0: self._run.id}
            self._insert(records)
            for ask in order.asks:
                database.add_ask(self.run_id, ask)
        # Ids of records up to this one were sent, or came from there.
        self._known = len(records)
        self._told_until = 0.0
        self._latest: list[int] = []

    @property
    def run_id(self) -> int:
        """The id of the run that the order is for."""
        assert self._run.id is not None
        return self._run.id

    def add(self, order: Order) -> None:
        """Take in what is new since the last reply: the driver's ids, and records of other runs."""
        self._ids |= zip(order.latest, self._latest, strict=True)
        blocks = [one for one in order.blocks if not self._ids.keys() >= set(one.ids)]
        records = _records_of(blocks)
        new = {number: one for number, one in records.items() if number not in self._ids}
        with self._database.transaction():
            self._insert(new)
        self._known += len(new)

    def _insert(self, records: Mapping[int, tuple[int, Record]]) -> None:
        """Store records by the driver's ids, each with the run that measured it."""
        ordered = sorted(records)
        for number in ordered:
            self._begin(records[number][0])
        stored = self._database.append(
            replace(one, id=None, run_id=self._runs[run])
            for run, one in (records[number] for number in ordered)
        )
        self._ids |= {number: one.id or 0 for number, one in zip(ordered, stored, strict=True)}

    def _begin(self, number: int) -> None:
        """Make a run for records of another one."""
        if number not in self._runs:
            other = replace(self._run, id=None, identity=f"other {number}", state="", outcome="")
            self._runs[number] = self._database.add_run(other).id if number else None

    def reply(self, reply: HostReply, run: TaskRun) -> HostReply:
        """Return a reply with what is new of the run: all of it where it was begun again."""
        [now] = (one for one in self._database.runs() if one.id == run.journal_id)
        again = now.id != self.run_id
        part = read_part(self._database, now, self._known, 0 if again else self._asks)
        self._latest = [one.id or 0 for one in part.records]
        self._asks += len(part.asks)
        self._known = max(self._latest, default=self._known)
        phases = [one for one in part.details.phases if one.end > self._told_until]
        self._told_until = max((one.end for one in phases), default=self._told_until)
        new = {number: -1 - place for place, number in enumerate(self._latest)}
        ids = {here: there for there, here in self._ids.items()} | new
        trials = tuple(one for one in part.details.trials if one.record_id in new)
        part = replace(part, details=replace(part.details, trials=trials, phases=tuple(phases)))
        part = part.renumbered(ids)
        known = max((ids[one] for one in ids if one <= now.known), default=0)
        saved = part.run.state
        return replace(
            reply,
            again=again,
            told=[ids[number] for number in reply.told],
            part=replace(part, run=replace(part.run, state="", id=0, known=known), records=()),
            records=deflate(records_to_json(part.records)),
            state=deflate(saved) if saved else b"",
        )


def _records_of(blocks: Sequence[Block]) -> dict[int, tuple[int, Record]]:
    """Return the records of blocks, each with its run, by the driver's ids."""
    return {one.id or 0: (block.run, one) for block in blocks for one in block.records()}
