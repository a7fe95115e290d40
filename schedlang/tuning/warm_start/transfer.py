"""Schedules of similar programs, tried on another one (deplodock, part 3, rule 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedlang.database import Database, Record
from schedlang.database.programs import replayed, stored_workload
from schedlang.errors import TargetError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.records import as_record, blank_record
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

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
) -> tuple[list[Attempt], int | None]:
    """Schedules of similar programs that were tried, and the place of the fastest right one.

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
    blank = blank_record(workload, target, "transfer", None)
    with target.measurer(workload, verify="all") as measurer:
        for measured in measurer.measure(
            [Candidate(number, schedule.mod) for number, (_, schedule) in enumerate(found)]
        ):
            source, schedule = found[measured.id]
            record = as_record(blank, schedule, measured)
            attempts.append(Attempt(record, schedule, source.workload_name))
        latencies = {
            place: one.record.latency
            for place, one in enumerate(attempts)
            if one.record.ok and one.record.verified
        }
        fastest = min(latencies, key=lambda place: latencies[place], default=None)
        if fastest is not None and latencies[fastest] >= measurer.reference_latency:
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
