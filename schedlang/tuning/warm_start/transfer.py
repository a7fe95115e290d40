"""Schedules of similar programs, tried on another one (deplodock, part 3, rule 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, takewhile

from schedlang.database import Database, Record
from schedlang.database.programs import Unreadable, replayed
from schedlang.errors import TargetError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate
from schedlang.search import Proposal
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.records import as_record, blank_record, unscheduled_record
from schedlang.tuning.warm_start.kin import carried_over, nearest_kin
from schedlang.tvm import program
from schedlang.tvm.movement import only_moves_data
from schedlang.workloads.workload import Workload

# Number of similar workloads, of those of other shapes, and of the fastest programs of each.
_WORKLOADS = 8
_KIN = 4
_OF_EACH = 2


@dataclass(frozen=True)
class Attempt:
    """A schedule of a similar program, tried on a workload.

    Attributes
    ----------
    record: of the workload; no database has it yet.
    schedule: the trace, applied.
    name: of the program that it comes from.
    other_shapes: whether that program has other shapes, and the schedule was carried over.
    """

    record: Record
    schedule: Schedule
    name: str
    other_shapes: bool


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

    They are those of the family; without any, those of the nearest programs of other shapes
    (``Workload.kin_key``). A program that the database has a record of is not tried again. On
    another machine there are no attempts. Programs that cannot be read are noted in ``unreadable``.
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
        candidates = [Candidate(proposal.id, proposal.schedule.mod) for proposal, *_ in found]
        for measured in measurer.measure(candidates):
            proposal, name, other_shapes = found[measured.id]
            record = replace(as_record(blank, proposal, measured), proposal=None)
            attempts.append(Attempt(record, proposal.schedule, name, other_shapes))
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
) -> Iterator[tuple[Proposal, str, bool]]:
    """Yield what traces of similar programs make of this one, and name and kind of the former."""
    tried: set[str] = set()
    for source in (_family, _kin):
        for schedule, name in source(workload, target, database, unreadable):
            proposal = Proposal(len(tried), schedule)
            program_key = proposal.program_key
            known = database.query(
                workload.key, target.key, toolchain_key(), limit=1, program_key=program_key
            )
            if program_key not in tried and not known:
                tried.add(program_key)
                yield proposal, name, source is _kin
        if tried:
            return


def _family(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Iterator[tuple[Schedule, str]]:
    """Yield schedules of programs of the family, and the names of these."""
    for key, _ in database.workloads(family_key=workload.family_key)[:_WORKLOADS]:
        source = unreadable.workload(database, key)
        if source is None:
            continue
        for record in _fastest(key, target, database):
            schedule = _transferred(record, source, workload)
            if schedule is not None:
                yield schedule, record.workload_name


def _kin(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Iterator[tuple[Schedule, str]]:
    """Yield schedules of the nearest programs of other shapes, and the names of these."""
    moves = only_moves_data(workload.func)
    space = target.movement_space() if moves else target.default_space()
    kin = nearest_kin(database, workload, unreadable)
    tuned = ((key, source) for key, source in kin if _fastest(key, target, database))
    for key, source in islice(tuned, _KIN):
        for record in _fastest(key, target, database):
            schedule = carried_over(record, source, workload, space)
            if schedule is not None:
                yield schedule, record.workload_name


def _fastest(key: str, target: Target, database: Database) -> list[Record]:
    """Return the fastest records of a workload; what is slower than no schedule is of no use."""
    found = database.best(key, target.key, n=_OF_EACH, verified=True)
    return list(takewhile(lambda record: not record.unscheduled, found))


def _transferred(record: Record, source: Workload, workload: Workload) -> Schedule | None:
    """Apply the trace of a similar program to this one, with blocks matched by their order."""
    theirs, ours = source.structure.blocks, workload.structure.blocks
    if len(theirs) != len(ours) or len(set(theirs)) != len(theirs):
        return None
    named = program.rename_blocks(workload.func, dict(zip(ours, theirs, strict=True)))
    return replayed(record, Workload(program.as_main(named), workload.name))
