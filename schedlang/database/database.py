"""The database: in one SQLite file, or in memory."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Self

from schedlang.database import rows
from schedlang.database.connection import AMONG, SQLiteConnection
from schedlang.database.file import OWNED_RUNS
from schedlang.database.place import (
    FROZEN_ID,
    IN_MEMORY,
    WITH_DETAILS,
    WITH_DISTURBANCE,
    WITH_FINALS,
    WITH_KIN,
    check_no_uri,
)
from schedlang.database.record import FinalsEntry, Record, check_sizes
from schedlang.database.run import Ask, Run, RunDetails, check_notes, check_tags
from schedlang.measurement import Status


class Database:
    """Stores records and the programs they belong to; nothing stored is ever run or changed.

    Of a file one process writes, any number read. Threads may share a database. Every method raises
    ``DatabaseError`` after ``close``, and when the storage fails.

    Parameters
    ----------
    path: the file; it is created if it is missing, its folder is not. ``":memory:"`` makes an empty
        database that lives as long as this object, for runs that keep nothing.
    read_only: never write; several processes may read what another one is writing.
    busy_seconds: how long to wait for another process's lock before giving up.

    Loading runs no code: traces and programs are text, numbers are numbers.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = IN_MEMORY,
        *,
        read_only: bool = False,
        busy_seconds: float = 30.0,
    ) -> None:
        check_no_uri(path)
        self.path = None if os.fspath(path) == IN_MEMORY else Path(path)
        self.read_only = read_only
        self._connection = SQLiteConnection(
            self.path, read_only=read_only, busy_seconds=busy_seconds
        )

    @property
    def frozen(self) -> bool:
        """Whether ``schedlang.freeze`` wrote it: it has winners only, and no more come."""
        ((owner,),) = self._connection.rows("PRAGMA application_id")
        return bool(owner == FROZEN_ID)

    def append(self, records: Iterable[Record]) -> list[Record]:
        """Store all of ``records`` or none; they are durable when this returns.

        Returns them with new ids, which grow in the order of insertion. DatabaseError for a record
        that is too large (see ``schedlang.database.record``).
        """
        records = list(records)
        check_sizes(records)
        stored = []
        # A copy of the file without its journal tells that a run was in progress, and nothing else.
        with self._connection.writing(through=not self._in_progress(records)):
            texts = [rows.provenance_text(one.provenance) for one in records]
            kept = {text: self._keep_provenance(text) for text in dict.fromkeys(texts)}
            measured: dict[int, list[str]] = {}
            for record, text in zip(records, texts, strict=True):
                cursor = self._connection.execute(rows.INSERT_RECORD, self._row(record, kept[text]))
                stored.append(dataclasses.replace(record, id=cursor.lastrowid))
                if record.run_id is not None:
                    measured.setdefault(record.run_id, []).append(record.program_key)
            for run_id, keys in measured.items():
                self._connection.execute(
                    f"DELETE FROM claim WHERE run_id = ? AND program_key {AMONG}",
                    [run_id, json.dumps(keys)],
                )
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
        """Return the records that match all that is given, oldest first; at most ``limit``.

        ``after`` skips the records up to this id: with ``limit``, many records are read in parts.
        """
        _check_at_least_zero("limit", limit)
        where, values = rows.conditions(
            workload_key, target_key, toolchain_key, status, program_key, run_id, after
        )
        return self._records(
            f"{where} ORDER BY record.id LIMIT ?", [*values, -1 if limit is None else limit]
        )

    def best(
        self,
        workload_key: str,
        target_key: str,
        toolchain_key: str | None = None,
        n: int = 1,
        *,
        verified: bool = False,
    ) -> list[Record]:
        """Return the ``n`` OK records with the lowest median latency, lowest first, then oldest.

        With ``verified``, only records whose results were compared count.
        """
        _check_at_least_zero("n", n)
        where, values = rows.conditions(workload_key, target_key, toolchain_key)
        compared = " AND verified" if verified else ""
        return self._records(
            f"{where} AND latency IS NOT NULL{compared} ORDER BY latency, record.id LIMIT ?",
            [*values, n],
        )

    def count(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
    ) -> int:
        """Return the number of records that match all that is given."""
        where, values = rows.conditions(workload_key, target_key, toolchain_key, status)
        ((count,),) = self._connection.rows(f"SELECT count(*) FROM record{where}", values)
        return int(count)

    def target_keys(self, workload_key: str) -> list[str]:
        """Return the keys of the machines that have an OK record of a workload, in their order."""
        where, values = rows.conditions(workload_key, status=Status.OK)
        sql = f"SELECT DISTINCT target_key FROM record{where} ORDER BY target_key"
        return [str(key) for (key,) in self._connection.rows(sql, values)]

    def get(self, ids: Iterable[int]) -> list[Record]:
        """Return the records with these ids, oldest first; unknown ids are ignored."""
        return self._records(f" WHERE record.id {AMONG} ORDER BY record.id", [json.dumps([*ids])])

    def delete(self, ids: Iterable[int]) -> int:
        """Remove the records with these ids, all or none; return how many there were.

        A run that had one of them must be removed too: use ``prune``, or ``delete_run`` first.
        """
        listed = json.dumps([*ids])
        with self._connection.writing(through=True):
            for table, column in (("final", "record_id"), ("trial", "record_id"), ("record", "id")):
                gone = self._connection.execute(
                    f"DELETE FROM {table} WHERE {column} {AMONG}", [listed]
                )
        return gone.rowcount

    def add_finals(self, entries: Iterable[FinalsEntry]) -> None:
        """Store how records did in finals: all of ``entries`` or none.

        Entries of records that were deleted meanwhile are ignored.
        """
        entries = list(entries)
        with self._connection.writing(through=True):
            for entry in entries:
                self._connection.execute(rows.INSERT_FINAL, rows.FINALS.row(entry))

    def finals(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
    ) -> list[FinalsEntry]:
        """Return the entries of the records that match all that is given, oldest first.

        Deleting a record deletes its entries.
        """
        if not self._has(WITH_FINALS):
            return []
        where, values = rows.conditions(workload_key, target_key, toolchain_key)
        sql = f"{rows.SELECT_FINALS}{where} ORDER BY final.id"
        return self._connection.read(rows.FINALS.value, "record", sql, values)

    @contextmanager
    def transaction(self, *, through: bool = True) -> Iterator[None]:
        """Store all that is done on this database inside ``with``, or nothing if it raises.

        Without ``through`` it may be in SQLite's journal beside the file only, as it is where a run
        is in progress.
        """
        with self._connection.writing(through=through):
            yield

    def compact(self) -> None:
        """Make the file as small as its content; it needs as much free space meanwhile."""
        with self._connection.writing():
            self._connection.execute(
                "DELETE FROM provenance WHERE id NOT IN "
                "(SELECT provenance_id FROM record WHERE provenance_id IS NOT NULL)"
            )
        self._connection.execute("VACUUM")
        self._connection.rows("PRAGMA wal_checkpoint(TRUNCATE)")

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
        """Store a program (TVM's JSON text) under its key; a known key keeps its program.

        A program that was stored without structural keys gets those that are given. With
        ``replace``, a known key gets this program instead of its own, which cannot be read.
        """
        with self._connection.writing(through=True):
            self._connection.execute(
                "INSERT INTO workload (key, name, script_json, exact_key, family_key, kin_key) "
                "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (key) DO UPDATE SET "
                "script_json = iif(?, excluded.script_json, script_json), "
                "exact_key = iif(exact_key = '', excluded.exact_key, exact_key), "
                "family_key = iif(family_key = '', excluded.family_key, family_key), "
                "kin_key = iif(kin_key = '', excluded.kin_key, kin_key)",
                (key, name, script_json, exact_key, family_key, kin_key, replace),
            )

    def get_workload(self, key: str) -> str | None:
        """Return the program's JSON text; None where no program is stored under ``key``."""
        found = self._programs(["script_json"], "key = ?", [key])
        return found[0][0] if found else None

    def workloads(
        self,
        exact_key: str | None = None,
        family_key: str | None = None,
        kin_key: str | None = None,
    ) -> list[tuple[str, str]]:
        """Return (key, name) of the programs with the given structural keys, oldest first."""
        given = {"exact_key": exact_key, "family_key": family_key, "kin_key": kin_key}
        if not self._has(WITH_KIN) and given.pop("kin_key"):
            return []
        wanted = {column: value for column, value in given.items() if value is not None}
        where = " AND ".join(f"{column} = ?" for column in wanted) or "true"
        found = self._programs(["key", "name"], where, list(wanted.values()))
        return [(key, name) for key, name in found]

    def structural_keys(self, key: str) -> tuple[str, str, str]:
        """Return exact, family and kin key of a program; ``""`` where one is not known."""
        columns = ["exact_key", "family_key", *(["kin_key"] if self._has(WITH_KIN) else [])]
        found = self._programs(columns, "key = ?", [key])
        exact, family, kin = (*(found[0] if found else ()), "", "", "")[:3]
        return exact, family, kin

    def add_run(self, run: Run) -> Run:
        """Store a run that begins; return it with its id."""
        with self._connection.writing(through=True):
            *row, _ = rows.RUNS.row(run, self._connection.pack)
            cursor = self._connection.execute(rows.INSERT_RUN, row)
        return dataclasses.replace(run, id=cursor.lastrowid)

    def find_run(self, identity: str) -> Run | None:
        """Return the run of an identity that began last; None without any."""
        found = self._runs("WHERE identity = ? ORDER BY created DESC, id DESC LIMIT 1", [identity])
        return found[0] if found else None

    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""
        return self._runs("ORDER BY id", [])

    def update_run(self, run: Run) -> None:
        """Replace a run's ``state``, ``state_asks`` and ``outcome``.

        Nothing happens when the run was deleted meanwhile.
        """
        state = self._connection.pack(run.state, replaced=True)
        with self._connection.writing():
            self._connection.execute(
                "UPDATE run SET state = ?, state_asks = ?, outcome = ? WHERE id = ?",
                (state, run.state_asks, run.outcome, run.id),
            )

    def delete_run(self, run_id: int) -> bool:
        """Forget a run, its asks, claims and details; its records stay.

        Return whether there was one.
        """
        with self._connection.writing(through=True):
            self._connection.execute("DELETE FROM ask WHERE run_id = ?", [run_id])
            rows.end_claims(self._connection, run_id)
            rows.remove_details(self._connection, run_id)
            cursor = self._connection.execute("DELETE FROM run WHERE id = ?", [run_id])
            if cursor.rowcount:
                self._connection.execute(
                    "UPDATE record SET run_id = NULL, proposal = NULL WHERE run_id = ?", [run_id]
                )
            return cursor.rowcount == 1

    def claim_run(self, run_id: int, owner: str, new_owner: str) -> bool:
        """Hand a run over if ``owner`` still has it, and end its claims of programs.

        Return whether ``owner`` had it.
        """
        with self._connection.writing(through=True):
            cursor = self._connection.execute(
                "UPDATE run SET owner = ? WHERE id = ? AND owner = ?", (new_owner, run_id, owner)
            )
            if cursor.rowcount:
                rows.end_claims(self._connection, run_id)
            return cursor.rowcount == 1

    def claim_programs(self, run_id: int, program_keys: Iterable[str]) -> frozenset[str]:
        """Claim the programs that a run is going to measure, in place of those it claimed before.

        Return those of ``program_keys`` that another run on the same workload, target and toolchain
        has claimed: they are not claimed again. A claim ends when its run appends a record of the
        program, is handed over or is deleted; it is void while the run's owner is no living process
        (``schedlang.database.file``). Nothing happens when the run was deleted meanwhile.
        """
        with self._connection.writing():
            return rows.claim_programs(self._connection, run_id, program_keys)

    def add_ask(self, run_id: int, ask: Ask) -> None:
        """Append a question that a run asks its search.

        Nothing happens when the run was deleted meanwhile.
        """
        with self._connection.writing():
            self._connection.execute(
                "INSERT INTO ask (run_id, size, seconds) SELECT id, ?, ? FROM run WHERE id = ?",
                (ask.size, ask.seconds, run_id),
            )

    def asks(self, run_id: int) -> list[Ask]:
        """Return what a run asked its search, in order."""
        sql = f"{rows.SELECT_ASKS} WHERE run_id = ? ORDER BY id"
        return self._connection.read(rows.ASKS.value, "run", sql, [run_id])

    def set_notes(
        self, run_id: int, notes: str | None = None, tags: Iterable[str] | None = None
    ) -> None:
        """Replace a run's notes, its tags, or both; None keeps them.

        ValueError for what is no text, and no words. Nothing happens when the run was deleted.
        """
        notes = None if notes is None else check_notes(notes)
        words = None if tags is None else json.dumps(check_tags(tags))
        with self._connection.writing(through=True):
            self._connection.execute(
                "UPDATE run SET notes = coalesce(?, notes), tags = coalesce(?, tags) WHERE id = ?",
                (notes, words, run_id),
            )

    def add_details(self, run_id: int, details: RunDetails) -> None:
        """Store more details of a run: all of them or none. See ``RunDetails.updated``.

        Those of trials whose records are not the run's are ignored. Nothing happens when the run
        was deleted meanwhile.
        """
        with self._connection.writing():
            rows.add_details(self._connection, run_id, details)

    def details(self, run_id: int) -> RunDetails:
        """Return the details of a run; empty where nothing is stored.

        Deleting a record deletes those of its trial.
        """
        return (
            rows.read_details(self._connection, run_id) if self._has(WITH_DETAILS) else RunDetails()
        )

    def close(self) -> None:
        """Release the storage; safe to call twice."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _has(self, schema: int) -> bool:
        """Whether the file has this schema; a reader does not upgrade an older one."""
        ((version,),) = self._connection.rows("PRAGMA user_version")
        return int(version) >= schema

    def _row(self, record: Record, provenance_id: int | None) -> list[object]:
        *row, _, _ = rows.RECORDS.row(record, self._connection.pack)
        return [*row, provenance_id, record.latency if record.ok else None]

    def _keep_provenance(self, text: str | None) -> int | None:
        """Return the id of a provenance text, which is stored if it is new."""
        if text is None:
            return None
        self._connection.execute("INSERT OR IGNORE INTO provenance (text) VALUES (?)", [text])
        ((number,),) = self._connection.rows("SELECT id FROM provenance WHERE text = ?", [text])
        return int(number)

    def _in_progress(self, records: Iterable[Record]) -> bool:
        """Whether all records belong to runs that a process works on, or no file has them."""
        if self.path is None:
            return True
        numbers = {record.run_id for record in records}
        if None in numbers:
            return False
        sql = f"SELECT count(*) {OWNED_RUNS} AND id {AMONG}"
        ((owned,),) = self._connection.rows(sql, [json.dumps([*numbers])])
        return bool(owned == len(numbers))

    def _records(self, clauses: str, values: Sequence[object]) -> list[Record]:
        select = rows.SELECT_RECORDS if self._has(WITH_DISTURBANCE) else rows.SELECT_OLD_RECORDS
        return self._connection.read(rows.RECORDS.value, "record", select + clauses, values)

    def _runs(self, clauses: str, values: Sequence[object]) -> list[Run]:
        select = rows.SELECT_RUN if self._has(WITH_DETAILS) else rows.SELECT_OLD_RUN
        return self._connection.read(rows.RUNS.value, "run", f"{select} {clauses}", values)

    def _programs(
        self, columns: Sequence[str], where: str, values: Sequence[object]
    ) -> list[tuple[str, ...]]:
        sql = f"SELECT {', '.join(columns)}, id FROM workload WHERE {where} ORDER BY id"
        return self._connection.read(partial(rows.texts_of, columns), "program", sql, values)


def _check_at_least_zero(name: str, value: int | None) -> None:
    """ValueError for a negative ``limit`` or ``n``, which SQL would read as "all"."""
    if value is not None and value < 0:
        raise ValueError(f"{name} must be at least 0, not {value}")
