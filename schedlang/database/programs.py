"""The programs in a database, and the schedules that its records make of them."""

from __future__ import annotations

from schedlang.database import Database, Record
from schedlang.errors import SchedlangError, WorkloadError
from schedlang.language.schedule import Schedule, Trace
from schedlang.tvm.program import to_json
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload


def put_program(database: Database, workload: Workload) -> None:
    """Store a workload's program under its keys."""
    database.put_workload(
        workload.key,
        workload.name,
        to_json(workload.mod),
        workload.exact_key,
        workload.family_key,
    )


def stored_workload(database: Database, key: str, name: str = "") -> Workload | None:
    """Return a stored program, named by its key unless ``name`` is given; None if unreadable."""
    text = database.get_workload(key)
    try:
        return None if text is None else Workload(read_stored_program(text), name or key)
    except WorkloadError:
        return None


def replayed(record: Record, workload: Workload) -> Schedule | None:
    """Apply a record's trace to a workload; None where it does not apply."""
    try:
        return Trace.from_json(record.trace_json, workload).replay()
    except SchedlangError:
        return None  # of an instruction that has changed or is not defined here
