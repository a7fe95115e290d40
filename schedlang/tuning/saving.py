"""Storing a result that was not written to a database while it was measured."""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace

from schedlang.database import Database, FinalsEntry, MemoryDatabase, Record, merge, open_database
from schedlang.database.programs import put_program
from schedlang.measurement import Status
from schedlang.measurement.finals import Finals
from schedlang.workloads.workload import Workload


def save_records(
    workload: Workload,
    records: list[Record],
    finals: Finals | None,
    ranked: list[Record | None],
    database: Database | str | os.PathLike[str],
) -> int:
    """Store a program, its records, and how the first of them did in the finals.

    ``ranked`` holds the records of the winner and of the runner-up, where there were finals.
    Returns the number of new records. ``DatabaseError`` where the database cannot be written.
    """
    with ExitStack() as stack:
        held = stack.enter_context(MemoryDatabase())
        put_program(held, workload)
        # The run that they belong to is not in that database.
        stored = held.append([replace(one, run_id=None, proposal=None) for one in records])
        if finals is not None and finals.held:
            numbers = {one.id: copy.id for one, copy in zip(records, stored, strict=True)}
            newest = max(one.created for one in records)
            held.add_finals(
                FinalsEntry(number, newest, place, Status.OK, finals.ranking[place].samples)
                for place, record in enumerate(ranked)
                if record is not None and (number := numbers.get(record.id)) is not None
            )
        opened = open_database(database)
        if opened is not database:
            stack.callback(opened.close)
        return merge(held, opened).records
