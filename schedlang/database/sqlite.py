"""The database in one SQLite file."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from schedlang.database.base import Database, check_at_least_zero
from schedlang.database.record import Record
from schedlang.database.sqlite_file import connect, explain
from schedlang.errors import DatabaseError
from schedlang.measurement import Status

_COLUMNS = (
    "workload_key, workload_name, target_key, toolchain_key, trace_json, status, samples, "
    "message, verified, search, seed, created, stderr"
)
_INSERT = f"INSERT INTO record ({_COLUMNS}, latency) VALUES ({', '.join('?' * 14)})"


class SQLiteDatabase(Database):
    """Records in an SQLite file: one process writes, any number read. Threads may share it.

    Parameters
    ----------
    path: the file; it is made when it is missing, its folder is not.
    read_only: never write; several processes may read what another one is writing.
    busy_seconds: how long to wait for another process's lock before giving up.

    Nothing is run by loading: traces and programs are text, numbers are numbers.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        busy_seconds: float = 30.0,
    ) -> None:
        self.path = Path(path)
        self.read_only = read_only
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = connect(
            self.path, read_only=read_only, busy_seconds=busy_seconds
        )

    def append(self, records: Iterable[Record]) -> list[Record]:
        """Store all of ``records`` in one transaction; on disk when this returns."""
        records = list(records)
        stored = []
        with self._writing() as connection:
            for record in records:
                cursor = connection.execute(_INSERT, _row_of(record))
                stored.append(dataclasses.replace(record, id=cursor.lastrowid))
        return stored

    def query(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
        limit: int | None = None,
    ) -> list[Record]:
        """The records that match everything given, oldest first; at most ``limit`` of them."""
        check_at_least_zero("limit", limit)
        where, values = _conditions(workload_key, target_key, toolchain_key, status)
        return self._records(
            f"{where} ORDER BY id LIMIT ?", [*values, -1 if limit is None else limit]
        )

    def best(
        self, workload_key: str, target_key: str, toolchain_key: str | None = None, n: int = 1
    ) -> list[Record]:
        """The ``n`` OK records with the lowest median latency, lowest first, then oldest first."""
        check_at_least_zero("n", n)
        where, values = _conditions(workload_key, target_key, toolchain_key, None)
        return self._records(
            f"{where} AND latency IS NOT NULL ORDER BY latency, id LIMIT ?", [*values, n]
        )

    def count(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
    ) -> int:
        """How many records match everything given."""
        where, values = _conditions(workload_key, target_key, toolchain_key, status)
        ((count,),) = self._rows(f"SELECT count(*) FROM record{where}", values)
        return int(count)

    def put_workload(self, key: str, name: str, script_json: str) -> None:
        """Keep a program under its key; a key that is known stays as it is."""
        with self._writing() as connection:
            connection.execute(
                "INSERT INTO workload (key, name, script_json) VALUES (?, ?, ?) "
                "ON CONFLICT (key) DO NOTHING",
                (key, name, script_json),
            )

    def get_workload(self, key: str) -> str | None:
        """The program's JSON text, or None when no program is kept under ``key``."""
        rows = self._rows("SELECT script_json FROM workload WHERE key = ?", [key])
        return rows[0][0] if rows else None

    def workloads(self) -> list[tuple[str, str]]:
        """(key, name) of every program that is kept, oldest first."""
        return self._rows("SELECT key, name FROM workload ORDER BY id", [])

    def close(self) -> None:
        """Let go of the file; safe to call twice."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _records(self, clauses: str, values: Sequence[object]) -> list[Record]:
        rows = self._rows(f"SELECT {_COLUMNS}, id FROM record{clauses}", values)
        try:
            return [_record_of(row) for row in rows]
        except ValueError as error:
            raise DatabaseError(
                f"database {self.path}: it holds a record that this schedlang cannot read "
                f"({error}); it may come from a newer version: upgrade schedlang"
            ) from error

    def _rows(self, sql: str, values: Sequence[object]) -> list[Any]:
        with self._lock, self._explained() as connection:
            return connection.execute(sql, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that commits on the way out and leaves nothing behind after an error."""
        if self.read_only:
            raise DatabaseError(
                f"database {self.path}: it was opened with read_only=True; open it without"
            )
        with self._lock, self._explained() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            raise DatabaseError(f"database {self.path}: it is closed; open it again")
        try:
            yield self._connection
        except sqlite3.Error as error:
            raise explain(self.path, error) from error


def _conditions(
    workload_key: str | None,
    target_key: str | None,
    toolchain_key: str | None,
    status: Status | None,
) -> tuple[str, list[object]]:
    """`` WHERE ...`` for what is given, or ``""``, and its values."""
    given = {
        "workload_key": workload_key,
        "target_key": target_key,
        "toolchain_key": toolchain_key,
        "status": None if status is None else str(status),
    }
    wanted = {column: value for column, value in given.items() if value is not None}
    where = " AND ".join(f"{column} = ?" for column in wanted)
    return (f" WHERE {where}" if where else ""), list(wanted.values())


def _row_of(record: Record) -> tuple[object, ...]:
    return (
        record.workload_key,
        record.workload_name,
        record.target_key,
        record.toolchain_key,
        record.trace_json,
        str(record.status),
        json.dumps(record.samples),
        record.message,
        record.verified,
        record.search,
        None if record.seed is None else str(record.seed),
        record.created,
        record.stderr,
        record.latency if record.ok else None,
    )


def _record_of(row: Sequence[Any]) -> Record:
    (workload_key, workload_name, target_key, toolchain_key, trace_json, *rest) = row
    (status, samples, message, verified, search, seed, created, stderr, number) = rest
    return Record(
        workload_key=workload_key,
        workload_name=workload_name,
        target_key=target_key,
        toolchain_key=toolchain_key,
        trace_json=trace_json,
        status=Status(status),
        samples=tuple(json.loads(samples)),
        message=message,
        verified=bool(verified),
        search=search,
        seed=None if seed is None else int(seed),
        created=created,
        id=number,
        stderr=stderr,
    )
