"""Merging two databases, and removing records of one."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from schedlang.database.database import Database
from schedlang.database.ranking import LookupStanding, preferred
from schedlang.database.record import FinalsEntry, Record
from schedlang.database.run import Run, mentioned, renumbered

_BATCH = 500


@dataclass(frozen=True)
class Merged:
    """What ``merge`` copied.

    Attributes
    ----------
    records, programs: number of new ones.
    equal_records: number of records that were there before.
    runs: number of runs that are new, or further than they were.
    runs_left_out: number of runs that cannot be continued there, because some of their records were
        there without them, or because the two copies went on differently; their records are copied.
    """

    records: int = 0
    programs: int = 0
    equal_records: int = 0
    runs: int = 0
    runs_left_out: int = 0

    def __str__(self) -> str:
        return (
            f"{self.records} new records ({self.equal_records} were there), {self.programs} new "
            f"programs, {self.runs} new or longer runs ({self.runs_left_out} left out)"
        )


def merge(source: Database, into: Database) -> Merged:
    """Copy what ``source`` has and ``into`` does not: all of it, or nothing if it fails.

    Records, runs and asks get new ids. Records are equal when all but id, run and proposal is
    equal; equal records are not copied, so merging twice changes nothing. A run that ``into`` has
    too, and that has only gone further in ``source``, is brought forward. Runs keep their details,
    and their notes and tags where ``into`` has none. Finals come with their records, so that a
    look-up in ``into`` knows who won. ``source`` is only read.
    """
    if source is into:
        return Merged()
    with into.transaction():
        return _Merge(source, into).run()


class _Merge:
    def __init__(self, source: Database, into: Database) -> None:
        self.source = source
        self.into = into
        # Ids in ``into`` by content; an id is removed when a record of ``source`` matches it.
        self.there: dict[bytes, list[int]] = defaultdict(list)
        # Ids of the records of ``source`` in ``into``.
        self.ids: dict[int, int] = {}
        # Runs of ``source`` to be continued in ``into``, by id: the run there, or None before it is
        # added.
        self.placed: dict[int, Run | None] = {}
        # Runs of ``source`` of which something was copied.
        self.longer: set[int] = set()
        self.records = 0
        self.equal = 0

    def run(self) -> Merged:
        programs = self._bring_programs()
        owned: dict[int | None, Counter[bytes]] = defaultdict(Counter)
        for record in all_records(self.into):
            content = content_of(record)
            self.there[content].append(_id(record))
            owned[record.run_id][content] += 1
        left_out = self._place_runs(owned)
        self._bring_records()
        self._bring_finals()
        for run in self.source.runs():
            if run.id in self.placed:
                self._bring_run(run)
        return Merged(self.records, programs, self.equal, len(self.longer), left_out)

    def _bring_programs(self) -> int:
        known = {key for key, _ in self.into.workloads()}
        brought = self.source.workloads()
        for key, name in brought:
            text = self.source.get_workload(key)
            assert text is not None
            self.into.put_workload(key, name, text, *self.source.structural_keys(key))
        return sum(key not in known for key, _ in brought)

    def _place_runs(self, owned: dict[int | None, Counter[bytes]]) -> int:
        """Find the counterpart of each run of ``source``; return how many are left out."""
        ours: dict[int | None, Counter[bytes]] = defaultdict(Counter)
        for record in all_records(self.source):
            ours[record.run_id][content_of(record)] += 1
        known: dict[object, list[Run]] = defaultdict(list)
        for there in self.into.runs():
            known[_same(there)].append(there)
        left_out = 0
        for run in self.source.runs():
            assert run.id is not None
            own = ours[run.id]
            twins = known[_same(run)]
            begun = [one for one in twins if self._begins(one, owned[one.id], run, own)]
            if begun:
                twin = max(begun, key=lambda one: owned[one.id].total())
                twins.remove(twin)
                self.placed[run.id] = twin
            elif any(own <= owned[one.id] for one in twins):
                pass  # It is further there.
            elif any(content in self.there for content in own):
                left_out += 1
            else:
                self.placed[run.id] = None
        return left_out

    def _begins(self, twin: Run, theirs: Counter[bytes], run: Run, own: Counter[bytes]) -> bool:
        """Whether a run of ``into`` is an earlier state of ``run``, or equal to it."""
        assert twin.id is not None and run.id is not None
        asks = self.into.asks(twin.id)
        return theirs <= own and self.source.asks(run.id)[: len(asks)] == asks

    def _bring_records(self) -> None:
        runs = self.source.runs()
        batch: list[Record] = []
        for record in all_records(self.source):
            content = content_of(record)
            if self.there.get(content):
                self.ids[_id(record)] = self.there[content].pop(0)
                self.equal += 1
                continue
            if record.run_id is not None and self.placed.get(record.run_id, True) is None:
                self._store(batch)
                batch = []
                # Those before it come first: the newest of an identity has to stay the newest.
                for run in runs:
                    if run.id is not None and run.id <= record.run_id:
                        self._begin(run)
            batch.append(record)
            if len(batch) == _BATCH:
                self._store(batch)
                batch = []
        self._store(batch)

    def _bring_finals(self) -> None:
        known = set(self.into.finals())
        entries = [
            replace(entry, record_id=self.ids[entry.record_id]) for entry in self.source.finals()
        ]
        self.into.add_finals(entry for entry in entries if entry not in known)

    def _store(self, batch: Iterable[Record]) -> None:
        batch = list(batch)
        new = []
        for record in batch:
            run = None if record.run_id is None else self.placed.get(record.run_id)
            if run is None or record.run_id is None:
                new.append(replace(record, run_id=None, proposal=None))
            else:
                new.append(replace(record, run_id=run.id))
                self.longer.add(record.run_id)
        for record, stored in zip(batch, self.into.append(new), strict=True):
            self.ids[_id(record)] = _id(stored)
        self.records += len(batch)

    def _begin(self, run: Run) -> None:
        """Add a run if it has to be, before its first record: the records it started from have
        their new ids by then.
        """
        if run.id is None or self.placed.get(run.id, True) is not None:
            return
        known = max((new for old, new in self.ids.items() if old <= run.known), default=0)
        fresh = replace(run, known=known, owner="", state="", state_asks=0, outcome="")
        self.placed[run.id] = self.into.add_run(fresh)
        self.longer.add(run.id)

    def _bring_run(self, run: Run) -> None:
        """Copy a run's asks, details, state and outcome."""
        assert run.id is not None
        self._begin(run)
        there = self.placed[run.id]
        assert there is not None and there.id is not None
        asks = self.source.asks(run.id)
        known = len(self.into.asks(there.id))
        for ask in asks[known:]:
            self.into.add_ask(there.id, ask)
        self.into.add_details(there.id, self.source.details(run.id).of_records(self.ids))
        self.into.set_notes(there.id, there.notes or run.notes, there.tags or run.tags)
        now = replace(renumbered(run, self.ids), id=there.id)
        if len(asks) > known or _progress(now) > _progress(there):
            self.longer.add(run.id)
        if run.id in self.longer:
            self.into.update_run(now)


def _same(run: Run) -> object:
    """Return a value that is equal for a run and its copies."""
    return run.identity, run.search, run.seed, run.created


def _progress(run: Run) -> tuple[bool, int]:
    return bool(run.outcome), run.state_asks


def _id(record: Record) -> int:
    assert record.id is not None
    return record.id


# -- All records of a database, without holding them all in memory --------------------------------

_PAGE = 1000


def all_records(
    database: Database,
    workload_key: str | None = None,
    target_key: str | None = None,
    toolchain_key: str | None = None,
) -> Iterator[Record]:
    """Yield the records that match all that is given, oldest first, read in parts."""
    after: int | None = None
    while True:
        page = database.query(workload_key, target_key, toolchain_key, limit=_PAGE, after=after)
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].id


def content_of(record: Record) -> bytes:
    """Return a digest of a record that is equal for equal records; id and run do not count."""
    content = (
        record.workload_key,
        record.workload_name,
        record.target_key,
        record.toolchain_key,
        record.trace_json,
        str(record.status),
        [float(sample) for sample in record.samples],
        record.message,
        bool(record.verified),
        record.search,
        record.seed,
        float(record.created),
        record.stderr,
        record.program_key,
        sorted(record.provenance.items()),
        record.disturbance,
    )
    return hashlib.blake2b(repr(content).encode(), digest_size=16).digest()


# -- Removing records that are not needed any more ------------------------------------------------


class _TimedRecord(NamedTuple):
    """What decides whether a record with a latency stays."""

    most: float
    id: int
    created: float
    verified: bool
    program_key: str


@dataclass(frozen=True)
class Pruned:
    """What ``prune`` removed, or would remove.

    Attributes
    ----------
    records: number of records with a latency; failures: number of records without.
    runs: number of runs that were forgotten because some of their records were removed.
    kept: number of the matching records that are left.
    dry_run: nothing was removed.
    """

    records: int
    failures: int
    runs: int
    kept: int
    dry_run: bool = False

    def __str__(self) -> str:
        did, forgot = ("would remove", "forget") if self.dry_run else ("removed", "forgot")
        return (
            f"{did} {self.records} records and {self.failures} failures, and {forgot} {self.runs} "
            f"runs; {self.kept} records stay"
        )


def _left_over(
    records: Sequence[_TimedRecord], keep: int, finals: Sequence[FinalsEntry]
) -> list[_TimedRecord]:
    """Return all but the ``keep`` fastest, and the verified ones that a look-up prefers."""
    fastest = sorted(records)[:keep]
    verified = [
        LookupStanding(one.id, one.most, one.program_key) for one in records if one.verified
    ]
    kept = {one.id for one in fastest} | set(islice(preferred(verified, finals), keep))
    return [one for one in records if one.id not in kept]


def prune(
    database: Database,
    *,
    keep_best: int | None = None,
    older_than: float | None = None,
    workload_key: str | None = None,
    target_key: str | None = None,
    toolchain_key: str | None = None,
    failures: bool = False,
    dry_run: bool = False,
) -> Pruned:
    """Remove records: all that match, or none if it fails.

    A run that loses a record is forgotten, so that ``tune`` does not take it for complete; its
    other records stay. Programs stay.

    Parameters
    ----------
    keep_best: number of records to keep of each workload, target and toolchain: this many of the
        fastest, and this many of the verified ones that a look-up prefers: winners of finals, then
        the fastest. The others are removed; 0 removes all that have a latency.
    older_than: remove only records that were measured before this time, in seconds since 1970.
    workload_key, target_key, toolchain_key: remove only records with these keys.
    failures: also remove records of failed candidates, which tell ``tune`` what not to try again.
    dry_run: only count.

    Raises ``ValueError`` when none of ``keep_best``, ``older_than`` and ``failures`` is given.
    """
    if keep_best is None and older_than is None and not failures:
        raise ValueError("say what goes: give keep_best, older_than or failures=True")
    if keep_best is not None and keep_best < 0:
        raise ValueError(f"keep_best must be at least 0, not {keep_best}")
    with nullcontext() if dry_run else database.transaction():
        timed: dict[tuple[str, str, str], list[_TimedRecord]] = defaultdict(list)
        failed: list[tuple[int, float]] = []
        run_of: dict[int, int | None] = {}
        for record in all_records(database, workload_key, target_key, toolchain_key):
            assert record.id is not None
            run_of[record.id] = record.run_id
            if record.ok:
                key = (record.workload_key, record.target_key, record.toolchain_key)
                timed[key].append(
                    _TimedRecord(
                        record.most,
                        record.id,
                        record.created,
                        record.verified,
                        record.program_key,
                    )
                )
            else:
                failed.append((record.id, record.created))
        slow: set[int] = set()
        if keep_best is not None or older_than is not None:
            for key, records in timed.items():
                slow.update(
                    one.id
                    for one in _left_over(records, keep_best or 0, database.finals(*key))
                    if older_than is None or one.created < older_than
                )
        useless = {
            number
            for number, created in failed
            if failures and (older_than is None or created < older_than)
        }
        gone = slow | useless
        broken = {run_of[number] for number in gone}
        forgotten = [
            run.id
            for run in database.runs()
            if run.id is not None and (run.id in broken or mentioned(run) & gone)
        ]
        if not dry_run:
            for number in forgotten:
                database.delete_run(number)
            database.delete(gone)
    if gone and not dry_run:
        database.compact()
    kept = len(run_of) - len(gone)
    return Pruned(len(slow), len(useless), len(forgotten), kept, dry_run)
