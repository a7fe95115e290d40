"""Schedules of similar programs, tried on another one (deplodock, part 3, rule 5)."""

from __future__ import annotations

import time
from dataclasses import replace

from schedlang.database import Database, Record
from schedlang.errors import SchedlangError, WorkloadError
from schedlang.measurement import Candidate, Measurement
from schedlang.schedule import Schedule
from schedlang.targets import LocalCPU, Target, toolchain_key
from schedlang.targets.provenance import provenance
from schedlang.trace import Trace
from schedlang.tvm import program
from schedlang.tvm.stored_program import read_stored_program
from schedlang.workload import Workload

# So many of the fastest programs of each similar workload, of so many workloads, are tried.
_OF_EACH = 2
_KIN = 8


def transfer(
    workload: Workload, target: Target, database: Database
) -> tuple[Record, Schedule, str] | None:
    """The fastest schedule of similar programs that is right on this one and faster than none.

    Its record, which no database has yet, the schedule, and the name of the program it is from.
    """
    found: list[tuple[Record, Schedule]] = []
    for key, _ in database.workloads(family_key=workload.family_key)[:_KIN]:
        source = stored_workload(database, key)
        for record in database.best(key, target.key, n=_OF_EACH) if source is not None else ():
            assert source is not None
            schedule = _transferred(record, source, workload) if record.verified else None
            if schedule is not None:
                found.append((record, schedule))
    if not found:
        return None
    with LocalCPU(workload, target, verify="all") as measurer:
        candidates = [Candidate(number, sch.mod) for number, (_, sch) in enumerate(found)]
        measured = [one for one in measurer.measure(candidates) if one.ok and one.verified]
        fastest = min(measured, key=lambda one: one.latency, default=None)
        if fastest is None or fastest.latency >= measurer.reference_latency:
            return None
    source_record, schedule = found[fastest.id]
    record = _as_record(fastest, schedule, workload, target, source_record)
    return record, schedule, source_record.workload_name


def _transferred(record: Record, source: Workload, workload: Workload) -> Schedule | None:
    """The trace of a similar program applied to this one, blocks matched by their order."""
    theirs, ours = source.structure.blocks, workload.structure.blocks
    if len(theirs) != len(ours) or len(set(theirs)) != len(theirs):
        return None
    named = program.rename_blocks(workload.func, dict(zip(ours, theirs, strict=True)))
    return replayed(record, Workload(program.as_main(named), workload.name))


def _as_record(
    measured: Measurement, schedule: Schedule, workload: Workload, target: Target, source: Record
) -> Record:
    return replace(
        source,
        workload_key=workload.key,
        workload_name=workload.name,
        target_key=target.key,
        toolchain_key=toolchain_key(),
        trace_json=schedule.trace.to_json(),
        samples=measured.samples,
        verified=measured.verified,
        search="transfer",
        seed=None,
        created=time.time(),
        program_key=program.structural_key(schedule.mod),
        provenance=provenance(target),
        run_id=None,
        proposal=None,
    )


def put_program(database: Database, workload: Workload) -> None:
    """Keep a workload's program under its keys."""
    database.put_workload(
        workload.key,
        workload.name,
        program.to_json(workload.mod),
        workload.exact_key,
        workload.family_key,
    )


def replayed(record: Record, workload: Workload) -> Schedule | None:
    """A record's trace applied to a workload; None where it does not apply."""
    try:
        return Trace.from_json(record.trace_json, workload).replay()
    except SchedlangError:
        return None  # of an instruction that has changed or is not defined here


def stored_workload(database: Database, key: str) -> Workload | None:
    """A program that a database keeps; None where it cannot be read."""
    text = database.get_workload(key)
    try:
        return None if text is None else Workload(read_stored_program(text), key)
    except WorkloadError:
        return None
