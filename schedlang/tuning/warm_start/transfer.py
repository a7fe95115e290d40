"""Schedules of similar programs, tried on another one (deplodock, part 3, rule 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from schedlang.database import Database, Record
from schedlang.database.programs import Unreadable, replayed
from schedlang.errors import TargetError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate
from schedlang.search import Proposal
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.records import as_record, blank_record, unscheduled_record
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

# Number of similar workloads, and of the fastest programs of each, that are tried.
_WORKLOADS = 8
_OF_EACH = 2


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


@dataclass(frozen=True)
class Transferred:
    """What trying schedules of similar programs gave.

    Attributes
    ----------
    attempts: one for each program that was tried.
    fastest: place of the fastest verified attempt; None where none is faster than the unscheduled
        program.
    unscheduled: record of the unscheduled program, measured with them; no database has it yet.
    """

    attempts: list[Attempt] = field(default_factory=list)
    fastest: int | None = None
    unscheduled: Record | None = None


def transfer(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Transferred:
    """Try schedules of similar programs on this machine, which must be the target.

    A program that the database has a record of is not tried again. On another machine there are no
    attempts. Programs that cannot be read are noted in ``unreadable``.
    """
    try:
        target.check_present()
    except TargetError:
        return Transferred()
    found = list(_proposals(workload, target, database, unreadable))
    if not found:
        return Transferred()
    attempts: list[Attempt] = []
    blank = blank_record(workload, target, "transfer", None)
    with target.measurer(workload, verify="all") as measurer:
        candidates = [Candidate(proposal.id, proposal.schedule.mod) for proposal, _ in found]
        for measured in measurer.measure(candidates):
            proposal, name = found[measured.id]
            record = replace(as_record(blank, proposal, measured), proposal=None)
            attempts.append(Attempt(record, proposal.schedule, name))
        latencies = {
            place: one.record.latency
            for place, one in enumerate(attempts)
            if one.record.ok and one.record.verified
        }
        fastest = min(latencies, key=lambda place: latencies[place], default=None)
        latency, unscheduled = measurer.reference_latency, None
        if measurer.reference_complete:
            unscheduled = unscheduled_record(blank, workload, latency)
            if fastest is not None and latencies[fastest] >= latency:
                fastest = None
    return Transferred(attempts, fastest, unscheduled)


def _proposals(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Iterator[tuple[Proposal, str]]:
    """Yield what the traces of similar programs make of this one, and the names of the former."""
    tried: set[str] = set()
    for key, _ in database.workloads(family_key=workload.family_key)[:_WORKLOADS]:
        source = unreadable.workload(database, key)
        if source is None:
            continue
        for record in database.best(key, target.key, n=_OF_EACH, verified=True):
            if record.unscheduled:
                break  # what is slower than no schedule there is no use here
            schedule = _transferred(record, source, workload)
            if schedule is None:
                continue
            proposal = Proposal(len(tried), schedule)
            program_key = proposal.program_key
            known = database.query(
                workload.key, target.key, toolchain_key(), limit=1, program_key=program_key
            )
            if program_key not in tried and not known:
                tried.add(program_key)
                yield proposal, record.workload_name


def _transferred(record: Record, source: Workload, workload: Workload) -> Schedule | None:
    """Apply the trace of a similar program to this one, with blocks matched by their order."""
    theirs, ours = source.structure.blocks, workload.structure.blocks
    if len(theirs) != len(ours) or len(set(theirs)) != len(theirs):
        return None
    named = program.rename_blocks(workload.func, dict(zip(ours, theirs, strict=True)))
    return replayed(record, Workload(program.as_main(named), workload.name))
