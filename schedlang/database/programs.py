"""The programs of a database, and the schedules that its records make of them."""

from __future__ import annotations

import warnings
from functools import lru_cache

from schedlang.database.database import Database
from schedlang.database.history import RunHistory
from schedlang.database.record import Record
from schedlang.errors import SchedlangError, UnreadableWarning, WorkloadError
from schedlang.language.schedule import Schedule, Trace
from schedlang.printed import first_line, listed
from schedlang.tvm import errors
from schedlang.tvm.program import to_json
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload

# -- Programs, and the schedules that records make of them ----------------------------------------


class Unreadable:
    """The rows of a database that one call could not use; ``warn`` says so once.

    Attributes
    ----------
    rows: what cannot be read and why, by the name of the row.
    """

    def __init__(self) -> None:
        self.rows: dict[str, str] = {}

    def workload(self, database: Database, key: str, name: str = "") -> Workload | None:
        """Return a stored program, named by its key unless ``name`` is given.

        None if the database does not hold it, or it cannot be read.
        """
        text = database.get_workload(key)
        if text is None:
            return None
        try:
            return Workload(read_stored_program(text), name or key)
        except WorkloadError as error:
            self.note_program(database, key, error)
            return None

    def note_program(self, database: Database, key: str, error: object) -> None:
        """Note a program that cannot be read."""
        named = f" ({name!r})" if (name := dict(database.workloads()).get(key)) else ""
        self.rows[f"the program of workload {key}{named}"] = str(error)

    def note_record(self, record: Record, error: Exception) -> None:
        """Note a record whose trace cannot be read or applied."""
        self.rows[f"record {record.id} of {record.workload_name!r}"] = str(error)

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __str__(self) -> str:
        return listed(self._said, lines=False)

    @property
    def listed(self) -> str:
        """The rows with the reasons, to end a message with."""
        return listed(self._said)

    @property
    def _said(self) -> list[str]:
        return [f"{row}: {first_line(why)}" for row, why in self.rows.items()]

    def warn(self, stacklevel: int = 2) -> None:
        """Give one UnreadableWarning that names the rows; nothing where there are none."""
        if self.rows:
            message = f"some rows of the database are not used: {self.listed}"
            warnings.warn(message, UnreadableWarning, stacklevel=stacklevel + 1)


def workload_of(history: RunHistory) -> Workload:
    """Return the workload of a run; WorkloadError where the database does not have its program."""
    if not history.program:
        raise WorkloadError("the database does not hold the program")
    return _read(history.program, history.name)


@lru_cache(maxsize=8)
def _read(text: str, name: str) -> Workload:
    return Workload(read_stored_program(text), name)


def program_text(workload: Workload) -> str:
    """Return a workload's program as TVM's JSON text; empty where TVM cannot write it."""
    try:
        return to_json(workload.mod)
    except Exception:  # TVM's errors have many types
        return ""


def put_program(database: Database, workload: Workload) -> None:
    """Store a workload's program under its keys, also in place of one that cannot be read.

    An UnreadableWarning says so where it could not be read back: its records will not be found.
    """
    stored = database.get_workload(workload.key)
    damaged = stored is not None and bool(_why_unreadable(stored))
    text, reason = stored or "", ""
    if stored is None or damaged:
        try:
            text = to_json(workload.mod)
            reason = _why_unreadable(text)
        except Exception as error:  # TVM's errors have many types
            reason = errors.reason_of(error)
    if reason:
        message = (
            f"workload {workload.name!r}: its program cannot be stored: {reason}; its records are "
            "kept, but best() and apply() will not find them"
        )
        warnings.warn(message, UnreadableWarning, stacklevel=3)
        return
    keys = (workload.exact_key, workload.family_key, workload.kin_key)
    database.put_workload(workload.key, workload.name, text, *keys, replace=damaged)


@lru_cache(maxsize=128)  # several runs of a program store it
def _why_unreadable(text: str) -> str:
    try:
        read_stored_program(text)
    except WorkloadError as error:
        return str(error)
    return ""


def replayed(
    record: Record, *workloads: Workload, unreadable: Unreadable | None = None
) -> Schedule | None:
    """Apply a record's trace to the first of ``workloads`` to which it applies; None without one.

    The reason is noted in ``unreadable``. The record of the unscheduled program needs no trace.
    """
    if record.unscheduled:
        return Schedule(workloads[0])
    first: SchedlangError | None = None
    for workload in workloads:
        try:
            return Trace.from_json(record.trace_json, workload).replay()
        except SchedlangError as error:
            first = first or error  # of an instruction that has changed or is not defined here
    if unreadable is not None and first is not None:
        unreadable.note_record(record, first)
    return None
