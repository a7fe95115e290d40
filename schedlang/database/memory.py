"""A database that lives as long as its process: for tests, and for runs that keep nothing."""

from __future__ import annotations

import copy
import dataclasses
import threading
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from schedlang.database.base import Database, check_at_least_zero, check_sizes
from schedlang.database.details import RunDetails, check_notes, check_tags
from schedlang.database.finals import FinalsEntry
from schedlang.database.owner import is_alive
from schedlang.database.record import Record
from schedlang.database.run import Ask, Run
from schedlang.errors import DatabaseError
from schedlang.measurement import Status


class MemoryDatabase(Database):
    """Records in a list, programs in a dict. Threads may share it."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._next_id = 1
        self._finals: list[FinalsEntry] = []
        self._programs: dict[str, tuple[str, str, str, str, str]] = {}
        self._runs: dict[int, Run] = {}
        self._asks: dict[int, list[Ask]] = {}
        self._details: dict[int, RunDetails] = {}
        # Programs that runs measure at the moment, by the run's id.
        self._claims: dict[int, set[str]] = {}
        self._next_run = 1
        self._lock = threading.RLock()
        self._closed = False

    def append(self, records: Iterable[Record]) -> list[Record]:
        """Store ``records``; durable only as long as this object."""
        records = list(records)
        check_sizes(records)
        with self._lock:
            self._check_open()
            stored = [
                dataclasses.replace(record, id=number)
                for number, record in enumerate(records, start=self._next_id)
            ]
            self._records += stored
            self._next_id += len(stored)
            for record in stored:
                self._claims.get(record.run_id or 0, set()).discard(record.program_key)
            return stored

    def query(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
        limit: int | None = None,
        *,
        program_key: str | None = None,
        run_id: int | None = None,
        after: int | None = None,
    ) -> list[Record]:
        """Return the records that match all that is given, oldest first; at most ``limit``."""
        check_at_least_zero("limit", limit)
        with self._lock:
            self._check_open()
            start = 0 if after is None else bisect_right(self._records, after, key=_id_of)
            found = self._records[start:]
        wanted = {
            "workload_key": workload_key,
            "target_key": target_key,
            "toolchain_key": toolchain_key,
            "status": status,
            "program_key": program_key,
            "run_id": run_id,
        }
        for name, value in wanted.items():
            if value is not None:
                found = [record for record in found if getattr(record, name) == value]
        return found[:limit]

    def best(
        self,
        workload_key: str,
        target_key: str,
        toolchain_key: str | None = None,
        n: int = 1,
        *,
        verified: bool = False,
    ) -> list[Record]:
        """Return the ``n`` OK records with the lowest median latency, lowest first, then oldest."""
        check_at_least_zero("n", n)
        found = self.query(workload_key, target_key, toolchain_key, Status.OK)
        found = [record for record in found if record.verified or not verified]
        return sorted(found, key=lambda record: record.latency)[:n]

    def count(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
    ) -> int:
        """Return the number of records that match all that is given."""
        return len(self.query(workload_key, target_key, toolchain_key, status))

    def get(self, ids: Iterable[int]) -> list[Record]:
        """Return the records with these ids, oldest first; unknown ids are ignored."""
        wanted = set(ids)
        with self._lock:
            self._check_open()
            return [one for one in self._records if one.id in wanted]

    def delete(self, ids: Iterable[int]) -> int:
        """Remove the records with these ids; return how many there were."""
        unwanted = set(ids)
        with self._lock:
            self._check_open()
            before = len(self._records)
            self._records = [one for one in self._records if one.id not in unwanted]
            self._finals = [one for one in self._finals if one.record_id not in unwanted]
            self._forget_trials(unwanted)
            return before - len(self._records)

    def add_finals(self, entries: Iterable[FinalsEntry]) -> None:
        """Store how records did in finals."""
        entries = list(entries)
        with self._lock:
            self._check_open()
            known = {record.id for record in self._records}
            self._finals += [entry for entry in entries if entry.record_id in known]

    def finals(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
    ) -> list[FinalsEntry]:
        """Return the entries of the records that match all that is given, oldest first."""
        with self._lock:
            self._check_open()
            if not self._finals:
                return []
            matching = {one.id for one in self.query(workload_key, target_key, toolchain_key)}
            return [entry for entry in self._finals if entry.record_id in matching]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Store all that is done inside ``with``, or nothing if it raises."""
        with self._lock:
            self._check_open()
            before = (list(self._records), self._next_id, dict(self._programs))
            finals_before = list(self._finals)
            claims_before = copy.deepcopy(self._claims)
            runs_before = (dict(self._runs), self._next_run, copy.deepcopy(self._asks))
            details_before = dict(self._details)
            try:
                yield
            except BaseException:
                self._records, self._next_id, self._programs = before
                self._finals, self._claims = finals_before, claims_before
                self._runs, self._next_run, self._asks = runs_before
                self._details = details_before
                raise

    def compact(self) -> None:
        """Nothing to do: Python frees what was removed."""
        with self._lock:
            self._check_open()

    def put_workload(
        self,
        key: str,
        name: str,
        script_json: str,
        exact_key: str = "",
        family_key: str = "",
        kin_key: str = "",
        *,
        replace: bool = False,
    ) -> None:
        """Store a program under its key; a known key keeps its program."""
        with self._lock:
            self._check_open()
            known = self._programs.get(key, (name, script_json, "", "", ""))
            self._programs[key] = (
                known[0],
                script_json if replace else known[1],
                known[2] or exact_key,
                known[3] or family_key,
                known[4] or kin_key,
            )

    def get_workload(self, key: str) -> str | None:
        """Return the program's JSON text; None where no program is stored under ``key``."""
        with self._lock:
            self._check_open()
            return self._programs[key][1] if key in self._programs else None

    def workloads(
        self,
        exact_key: str | None = None,
        family_key: str | None = None,
        kin_key: str | None = None,
    ) -> list[tuple[str, str]]:
        """Return (key, name) of the programs with the given structural keys, oldest first."""
        with self._lock:
            self._check_open()
            return [
                (key, name)
                for key, (name, _, exact, family, kin) in self._programs.items()
                if exact_key in (None, exact)
                and family_key in (None, family)
                and kin_key in (None, kin)
            ]

    def structural_keys(self, key: str) -> tuple[str, str, str]:
        """Return exact, family and kin key of a program; ``""`` where one is not known."""
        with self._lock:
            self._check_open()
            _, _, exact, family, kin = self._programs.get(key, ("", "", "", "", ""))
            return exact, family, kin

    def add_run(self, run: Run) -> Run:
        """Store a run that begins; return it with its id."""
        with self._lock:
            self._check_open()
            stored = dataclasses.replace(run, id=self._next_run)
            self._runs[self._next_run] = stored
            self._next_run += 1
            return stored

    def find_run(self, identity: str) -> Run | None:
        """Return the run of an identity that began last; None without any."""
        with self._lock:
            self._check_open()
            found = [run for run in self._runs.values() if run.identity == identity]
            return max(found, key=lambda run: (run.created, run.id), default=None)

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        with self._lock:
            self._check_open()
            return list(self._runs.values())

    def update_run(self, run: Run) -> None:
        """Replace a run's ``state``, ``state_asks`` and ``outcome``."""
        with self._lock:
            self._check_open()
            if run.id in self._runs:
                self._runs[run.id] = dataclasses.replace(
                    self._runs[run.id],
                    state=run.state,
                    state_asks=run.state_asks,
                    outcome=run.outcome,
                )

    def delete_run(self, run_id: int) -> bool:
        """Forget a run, its asks, claims and details; its records stay."""
        with self._lock:
            self._check_open()
            if self._runs.pop(run_id, None) is None:
                return False
            self._asks.pop(run_id, None)
            self._details.pop(run_id, None)
            self._claims.pop(run_id, None)
            self._records = [
                dataclasses.replace(one, run_id=None, proposal=None)
                if one.run_id == run_id
                else one
                for one in self._records
            ]
            return True

    def claim_run(self, run_id: int, owner: str, new_owner: str) -> bool:
        """Hand a run over if ``owner`` still has it, and end its claims of programs."""
        with self._lock:
            self._check_open()
            run = self._runs.get(run_id)
            if run is None or run.owner != owner:
                return False
            self._runs[run_id] = dataclasses.replace(run, owner=new_owner)
            self._claims.pop(run_id, None)
            return True

    def claim_programs(self, run_id: int, program_keys: Iterable[str]) -> frozenset[str]:
        """Claim programs for a run; return those that another run has claimed."""
        wanted = set(program_keys)
        with self._lock:
            self._check_open()
            run = self._runs.get(run_id)
            if run is None:
                return frozenset()
            taken: set[str] = set()
            for other, claimed in self._claims.items():
                common = claimed & wanted
                if other != run_id and common and _disturbs(self._runs[other], run):
                    taken |= common
            self._claims[run_id] = wanted - taken
            return frozenset(taken)

    def add_ask(self, run_id: int, ask: Ask) -> None:
        """Append a question that a run asks its search."""
        with self._lock:
            self._check_open()
            if run_id in self._runs:
                self._asks.setdefault(run_id, []).append(ask)

    def asks(self, run_id: int) -> list[Ask]:
        """Return what a run asked its search, in order."""
        with self._lock:
            self._check_open()
            return list(self._asks.get(run_id, ()))

    def set_notes(
        self, run_id: int, notes: str | None = None, tags: Iterable[str] | None = None
    ) -> None:
        """Replace a run's notes, its tags, or both; None keeps them."""
        text = None if notes is None else check_notes(notes)
        words = None if tags is None else check_tags(tags)
        with self._lock:
            self._check_open()
            if (run := self._runs.get(run_id)) is not None:
                self._runs[run_id] = dataclasses.replace(
                    run,
                    notes=run.notes if text is None else text,
                    tags=run.tags if words is None else words,
                )

    def add_details(self, run_id: int, details: RunDetails) -> None:
        """Store more details of a run."""
        with self._lock:
            self._check_open()
            if run_id in self._runs and details:
                own = {one.id: one.id for one in self._records if one.run_id == run_id and one.id}
                known = self._details.get(run_id, RunDetails())
                self._details[run_id] = known.updated(details.of_records(own))

    def details(self, run_id: int) -> RunDetails:
        """Return the details of a run; empty where nothing is stored."""
        with self._lock:
            self._check_open()
            return self._details.get(run_id, RunDetails())

    def _forget_trials(self, unwanted: set[int]) -> None:
        for run_id, details in self._details.items():
            kept = tuple(one for one in details.trials if one.record_id not in unwanted)
            self._details[run_id] = dataclasses.replace(details, trials=kept)

    def close(self) -> None:
        """Forget everything; safe to call twice."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise DatabaseError("the in-memory database is closed; open a new one")


def _disturbs(other: Run, run: Run) -> bool:
    """Whether a living process measures what a run would measure."""
    places = {(one.workload_key, one.target_key, one.toolchain_key) for one in (other, run)}
    return len(places) == 1 and is_alive(other.owner)


def _id_of(record: Record) -> int:
    assert record.id is not None
    return record.id
