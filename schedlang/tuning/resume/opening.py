"""The run of a workload in a database: its identity, and its journal."""

from __future__ import annotations

from typing import Any

from schedlang.database import Database, Record
from schedlang.database.programs import put_program
from schedlang.measurement.clock import Clock
from schedlang.targets import Target
from schedlang.tuning.options import Option, identifying
from schedlang.tuning.resume.identity import identity
from schedlang.tuning.resume.journal import Journal, new_run, open_journal
from schedlang.tuning.warm_start import WarmStart
from schedlang.workloads.workload import Workload


def run_identity(
    workload: Workload, target: Target, options: tuple[Option, ...], **values: Any
) -> str:
    """Return what is equal for calls that continue one run of a workload.

    ``values``: what counts of each of the ``options`` that identify a run.
    """
    # Traces name blocks, which the key of a workload does not.
    keys = (workload.key, workload.structure.blocks, target.key)
    return identity(*keys, *identifying(options, values))


def journal_of(
    database: Database,
    workload: Workload,
    blank: Record,
    call: str,
    past: WarmStart,
    *,
    anew: bool,
    clock: Clock,
) -> Journal:
    """Open the journal of the run with the identity ``call``, or begin it.

    ``anew`` begins it in any case. DatabaseError when another process works on it.
    """
    put_program(database, workload)
    return open_journal(database, new_run(blank, call, past.newest), anew=anew, clock=clock)
