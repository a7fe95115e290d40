"""A database that lives as long as its process: for tests, and for runs that keep nothing."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterable

from schedlang.database.base import Database, check_at_least_zero
from schedlang.database.record import Record
from schedlang.errors import DatabaseError
from schedlang.measurement import Status


class MemoryDatabase(Database):
    """Records in a list, programs in a dict. Threads may share it."""

    def __init__(self) -> None:
        self._records: list[Record] = []
        self._programs: dict[str, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self._closed = False

    def append(self, records: Iterable[Record]) -> list[Record]:
        """Store ``records``; durable only as long as this object."""
        records = list(records)
        with self._lock:
            self._check_open()
            first = len(self._records) + 1
            stored = [
                dataclasses.replace(record, id=number)
                for number, record in enumerate(records, start=first)
            ]
            self._records += stored
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
        with self._lock:
            self._check_open()
            found = list(self._records)
        wanted = {
            "workload_key": workload_key,
            "target_key": target_key,
            "toolchain_key": toolchain_key,
            "status": status,
        }
        for name, value in wanted.items():
            if value is not None:
                found = [record for record in found if getattr(record, name) == value]
        return found[:limit]

    def best(
        self, workload_key: str, target_key: str, toolchain_key: str | None = None, n: int = 1
    ) -> list[Record]:
        """The ``n`` OK records with the lowest median latency, lowest first, then oldest first."""
        check_at_least_zero("n", n)
        found = self.query(workload_key, target_key, toolchain_key, Status.OK)
        return sorted(found, key=lambda record: record.latency)[:n]

    def count(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
    ) -> int:
        """How many records match everything given."""
        return len(self.query(workload_key, target_key, toolchain_key, status))

    def put_workload(self, key: str, name: str, script_json: str) -> None:
        """Keep a program under its key; a key that is known stays as it is."""
        with self._lock:
            self._check_open()
            self._programs.setdefault(key, (name, script_json))

    def get_workload(self, key: str) -> str | None:
        """The program's JSON text, or None when no program is kept under ``key``."""
        with self._lock:
            self._check_open()
            return self._programs[key][1] if key in self._programs else None

    def workloads(self) -> list[tuple[str, str]]:
        """(key, name) of every program that is kept, oldest first."""
        with self._lock:
            self._check_open()
            return [(key, name) for key, (name, _) in self._programs.items()]

    def close(self) -> None:
        """Forget everything; safe to call twice."""
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            raise DatabaseError("the in-memory database is closed; open a new one")
