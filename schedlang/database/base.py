"""What a database of records does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from schedlang.database.record import Record
from schedlang.measurement import Status


class Database(ABC):
    """Stores records and the programs they belong to; nothing stored is ever run or changed.

    Every method raises ``DatabaseError`` after ``close``, and when the storage fails.
    ``schedlang.testing.database`` holds the tests that every implementation passes.
    """

    @abstractmethod
    def append(self, records: Iterable[Record]) -> list[Record]:
        """Store all of ``records`` or none; they are durable when this returns.

        Returns them with their ids, which grow in the order of insertion; ids they had are ignored.
        """

    @abstractmethod
    def query(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
        limit: int | None = None,
    ) -> list[Record]:
        """The records that match everything given, oldest first; at most ``limit`` of them."""

    @abstractmethod
    def best(
        self, workload_key: str, target_key: str, toolchain_key: str | None = None, n: int = 1
    ) -> list[Record]:
        """The ``n`` OK records with the lowest median latency, lowest first, then oldest first."""

    @abstractmethod
    def count(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
    ) -> int:
        """How many records match everything given."""

    @abstractmethod
    def put_workload(self, key: str, name: str, script_json: str) -> None:
        """Keep a program (TVM's JSON text) under its key; a key that is known stays as it is."""

    @abstractmethod
    def get_workload(self, key: str) -> str | None:
        """The program's JSON text, or None when no program is kept under ``key``."""

    @abstractmethod
    def workloads(self) -> list[tuple[str, str]]:
        """(key, name) of every program that is kept, oldest first."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the storage; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def check_at_least_zero(name: str, value: int | None) -> None:
    """ValueError for a negative ``limit`` or ``n``, which SQL would read as "all"."""
    if value is not None and value < 0:
        raise ValueError(f"{name} must be at least 0, not {value}")
