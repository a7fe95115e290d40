"""Schedules of similar programs, tried on another one (deplodock, part 3, rule 5)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

from schedlang.database import Database, Record
from schedlang.errors import SchedlangError, TargetError, WorkloadError
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


@dataclass(frozen=True)
class Attempt:
    """A schedule of a similar program, tried on a workload.

    Attributes
    ----------
    record: of the workload; no database has it yet.
    schedule: the trace, applied.
    name: of the program that it comes from.
    """

    record: Record
    schedule: Schedule
    name: str


def transfer(
    workload: Workload, target: Target, database: Database
) -> tuple[list[Attempt], Attempt | None]:
    """Schedules of similar programs that were tried, and the fastest of those that are right.

    None where none is faster than the unscheduled program. What was tried before, and is in the
    database, is not tried again. Nothing is where this machine is not the target.
    """
    try:
        target.check_present()
    except TargetError:
        return [], None
    found = list(_candidates(workload, target, database))
    if not found:
        return [], None
    attempts: list[Attempt] = []
    with LocalCPU(workload, target, verify="all") as measurer:
        for measured in measurer.measure(
            [Candidate(number, schedule.mod) for number, (_, schedule) in enumerate(found)]
        ):
            source, schedule = found[measured.id]
            record = _as_record(measured, schedule, workload, target, source)
            attempts.append(Attempt(record, schedule, source.workload_name))
        right = [one for one in attempts if one.record.ok and one.record.verified]
        fastest = min(right, key=lambda one: one.record.latency, default=None)
        if fastest is not None and fastest.record.latency >= measurer.reference_latency:
            fastest = None
    return attempts, fastest


def _candidates(
    workload: Workload, target: Target, database: Database
) -> Iterator[tuple[Record, Schedule]]:
    """Records of similar programs, and what their traces make of this one."""
    tried: set[str] = set()
    for key, _ in database.workloads(family_key=workload.family_key)[:_KIN]:
        source = stored_workload(database, key)
        if source is None:
            continue
        for record in database.best(key, target.key, n=_OF_EACH, verified=True):
            schedule = _transferred(record, source, workload)
            if schedule is None:
                continue
            made = program.structural_key(schedule.mod)
            known = database.query(
                workload.key, target.key, toolchain_key(), limit=1, program_key=made
            )
            if made not in tried and not known:
                tried.add(made)
                yield record, schedule


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
        status=measured.status,
        samples=measured.samples,
        message=measured.message,
        stderr=measured.stderr,
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
