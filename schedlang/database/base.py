"""The interface of a database of records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NoReturn, Self

from schedlang.database.details import RunDetails
from schedlang.database.finals import FinalsEntry
from schedlang.database.record import LONGEST_TEXT, LONGEST_TRACE, MOST_SAMPLES, Record
from schedlang.database.run import Ask, Run
from schedlang.errors import DatabaseError
from schedlang.measurement import Status


class Database(ABC):
    """Stores records and the programs they belong to; nothing stored is ever run or changed.

    Every method raises ``DatabaseError`` after ``close``, and when the storage fails.
    ``schedlang.testing.database`` holds the tests that every implementation passes.
    """

    @abstractmethod
    def append(self, records: Iterable[Record]) -> list[Record]:
        """Store all of ``records`` or none; they are durable when this returns.

        Returns them with new ids, which grow in the order of insertion. DatabaseError for a record
        that is too large (see ``schedlang.database.record``).
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
        """Return the records that match all that is given, oldest first; at most ``limit``.

        ``after`` skips the records up to this id: with ``limit``, many records are read in parts.
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
        """Return the ``n`` OK records with the lowest median latency, lowest first, then oldest.

        With ``verified``, only records whose results were compared count.
        """

    @abstractmethod
    def count(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
        status: Status | None = None,
    ) -> int:
        """Return the number of records that match all that is given."""

    @abstractmethod
    def get(self, ids: Iterable[int]) -> list[Record]:
        """Return the records with these ids, oldest first; unknown ids are ignored."""

    @abstractmethod
    def delete(self, ids: Iterable[int]) -> int:
        """Remove the records with these ids, all or none; return how many there were.

        A run that had one of them must be removed too: use ``prune``, or ``delete_run`` first.
        """

    @abstractmethod
    def add_finals(self, entries: Iterable[FinalsEntry]) -> None:
        """Store how records did in finals: all of ``entries`` or none.

        Entries of records that were deleted meanwhile are ignored.
        """

    @abstractmethod
    def finals(
        self,
        workload_key: str | None = None,
        target_key: str | None = None,
        toolchain_key: str | None = None,
    ) -> list[FinalsEntry]:
        """Return the entries of the records that match all that is given, oldest first.

        Deleting a record deletes its entries.
        """

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Store all that is done on this database inside ``with``, or nothing if it raises."""

    @abstractmethod
    def compact(self) -> None:
        """Free the space of what was removed, if the storage keeps it."""

    # -- programs --------------------------------------------------------------------------------

    @abstractmethod
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

    @abstractmethod
    def get_workload(self, key: str) -> str | None:
        """Return the program's JSON text; None where no program is stored under ``key``."""

    @abstractmethod
    def workloads(
        self,
        exact_key: str | None = None,
        family_key: str | None = None,
        kin_key: str | None = None,
    ) -> list[tuple[str, str]]:
        """Return (key, name) of the programs with the given structural keys, oldest first."""

    @abstractmethod
    def structural_keys(self, key: str) -> tuple[str, str, str]:
        """Return exact, family and kin key of a program; ``""`` where one is not known."""

    # -- runs ------------------------------------------------------------------------------------

    @abstractmethod
    def add_run(self, run: Run) -> Run:
        """Store a run that begins; return it with its id."""

    @abstractmethod
    def find_run(self, identity: str) -> Run | None:
        """Return the run of an identity that began last; None without any."""

    @abstractmethod
    def runs(self) -> list[Run]:
        """Return all runs, oldest first."""

    @abstractmethod
    def update_run(self, run: Run) -> None:
        """Replace a run's ``state``, ``state_asks`` and ``outcome``.

        Nothing happens when the run was deleted meanwhile.
        """

    @abstractmethod
    def delete_run(self, run_id: int) -> bool:
        """Forget a run, its asks, claims and details; its records stay.

        Return whether there was one.
        """

    @abstractmethod
    def claim_run(self, run_id: int, owner: str, new_owner: str) -> bool:
        """Hand a run over if ``owner`` still has it, and end its claims of programs.

        Return whether ``owner`` had it.
        """

    @abstractmethod
    def claim_programs(self, run_id: int, program_keys: Iterable[str]) -> frozenset[str]:
        """Claim the programs that a run is going to measure, in place of those it claimed before.

        Return those of ``program_keys`` that another run on the same workload, target and toolchain
        has claimed: they are not claimed again. A claim ends when its run appends a record of the
        program, is handed over or is deleted; it is void while the run's owner is no living process
        (see ``schedlang.database.owner``). Nothing happens when the run was deleted meanwhile.
        """

    @abstractmethod
    def add_ask(self, run_id: int, ask: Ask) -> None:
        """Append a question that a run asks its search.

        Nothing happens when the run was deleted meanwhile.
        """

    @abstractmethod
    def asks(self, run_id: int) -> list[Ask]:
        """Return what a run asked its search, in order."""

    @abstractmethod
    def set_notes(
        self, run_id: int, notes: str | None = None, tags: Iterable[str] | None = None
    ) -> None:
        """Replace a run's notes, its tags, or both; None keeps them.

        ValueError for what is no text, and no words. Nothing happens when the run was deleted.
        """

    @abstractmethod
    def add_details(self, run_id: int, details: RunDetails) -> None:
        """Store more details of a run: all of them or none. See ``RunDetails.updated``.

        Those of trials whose records are not the run's are ignored. Nothing happens when the run
        was deleted meanwhile.
        """

    @abstractmethod
    def details(self, run_id: int) -> RunDetails:
        """Return the details of a run; empty where nothing is stored.

        Deleting a record deletes those of its trial.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the storage; safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def check_sizes(records: Iterable[Record]) -> None:
    """DatabaseError for a record that is too large to be stored and read in reasonable time."""
    for record in records:
        if (length := len(record.trace_json)) > LONGEST_TRACE:
            _refuse(record, f"its trace has {length:,} characters", LONGEST_TRACE)
        if (length := len(record.samples)) > MOST_SAMPLES:
            _refuse(record, f"it has {length:,} samples", MOST_SAMPLES)
        keys = (record.workload_key, record.target_key, record.toolchain_key, record.program_key)
        names = (record.workload_name, record.search, *record.provenance.keys())
        length = sum(map(len, (*keys, *names, *record.provenance.values())))
        if length > LONGEST_TEXT:
            what = f"its keys, names and provenance have {length:,} characters"
            _refuse(record, what, LONGEST_TEXT)


def _refuse(record: Record, what: str, most: int) -> NoReturn:
    raise DatabaseError(
        f"a record of {record.workload_name[:80]!r} is too large: {what}, and at most {most:,} can "
        "be stored; leave it out"
    )


def check_at_least_zero(name: str, value: int | None) -> None:
    """ValueError for a negative ``limit`` or ``n``, which SQL would read as "all"."""
    if value is not None and value < 0:
        raise ValueError(f"{name} must be at least 0, not {value}")
