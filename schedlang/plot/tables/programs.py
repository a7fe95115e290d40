"""The program of a run, and what its traces make of it."""

from __future__ import annotations

from functools import lru_cache

from schedlang.database.history import RunHistory
from schedlang.errors import WorkloadError
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workloads.workload import Workload


def workload_of(history: RunHistory) -> Workload:
    """Return the workload of a run; WorkloadError where the database does not have its program."""
    if not history.program:
        raise WorkloadError("the database does not hold the program")
    return _read(history.program, history.name)


@lru_cache(maxsize=8)
def _read(text: str, name: str) -> Workload:
    return Workload(read_stored_program(text), name)
