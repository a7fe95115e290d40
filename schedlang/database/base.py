"""What a database of records does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from schedlang.database.record import Record
from schedlang.database.run import Ask, Run
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
        *,
        program_key: str | None = None,
        run_id: int | None = None,
        after: int | None = None,
    ) -> list[Record]:
        """The records that match everything given, oldest first; at most ``limit`` of them.

        ``after`` leaves out those up to an id: with ``limit`` one reads many in parts.
        """

    @abstractmethod
    def best(
        self,
        workload_key: str,
        target_key: str,
        toolchain_key: str | None = None,
        n: int = 1,
        *,
        verified: bool = False,
    ) -> list[Record]:
        """The ``n`` OK records with the lowest median latency, lowest first, then oldest first.

        With ``verified``, of those whose results were compared.
        """

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
    def get(self, ids: Iterable[int]) -> list[Record]:
        """The records with these ids, oldest first; those that are not there are left out."""

    @abstractmethod
    def delete(self, ids: Iterable[int]) -> int:
        """Remove the records with these ids, all or none; how many there were of them.

        A run that had one of them must go too: use ``prune``, or ``delete_run`` before.
        """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """All that is done on this database inside ``with`` is stored, or none if it raises."""

    @abstractmethod
    def compact(self) -> None:
        """Give back the space of what was removed, where a storage keeps it."""

    # -- programs --------------------------------------------------------------------------------

    @abstractmethod
    def put_workload(
        self, key: str, name: str, script_json: str, exact_key: str = "", family_key: str = ""
    ) -> None:
        """Keep a program (TVM's JSON text) under its key; a key that is known stays as it is.

        A program that was kept without structural keys gets those that are given.
        """

    @abstractmethod
    def get_workload(self, key: str) -> str | None:
        """The program's JSON text, or None when no program is kept under ``key``."""

    @abstractmethod
    def workloads(
        self, exact_key: str | None = None, family_key: str | None = None
    ) -> list[tuple[str, str]]:
        """(key, name) of the programs with these structural keys, oldest first; by default all."""

    @abstractmethod
    def structural_keys(self, key: str) -> tuple[str, str]:
        """The exact and the family key of a program; ``""`` for one that is not known."""

    # -- runs ------------------------------------------------------------------------------------

    @abstractmethod
    def add_run(self, run: Run) -> Run:
        """Keep a run that begins; returns it with its id."""

    @abstractmethod
    def find_run(self, identity: str) -> Run | None:
        """The run of an identity that began last."""

    @abstractmethod
    def runs(self) -> list[Run]:
        """All runs, oldest first."""

    @abstractmethod
    def update_run(self, run: Run) -> None:
        """Keep a run's ``state``, ``state_asks`` and ``outcome`` in place of what they were.

        Nothing happens when the run was deleted meanwhile.
        """

    @abstractmethod
    def delete_run(self, run_id: int) -> bool:
        """Forget a run and its asks; whether there was one. Its records stay, and are of no run."""

    @abstractmethod
    def claim_run(self, run_id: int, owner: str, new_owner: str) -> bool:
        """Hand a run over if ``owner`` still has it; whether he had."""

    @abstractmethod
    def add_ask(self, run_id: int, ask: Ask) -> None:
        """Note what a run asks its search, after what it asked before.

        Nothing happens when the run was deleted meanwhile.
        """

    @abstractmethod
    def asks(self, run_id: int) -> list[Ask]:
        """What a run asked its search, in order."""

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
