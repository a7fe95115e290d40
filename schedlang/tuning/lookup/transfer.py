"""Schedules of similar programs, tried on another one (deplodock, part 3, rule 5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, takewhile

from schedlang.database import Database, Record, Timing
from schedlang.database.programs import Unreadable, replayed
from schedlang.errors import TargetError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate
from schedlang.search import Proposal
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.lookup.match import Kind, Match
from schedlang.tuning.records import as_record, blank_record, unscheduled_record
from schedlang.tuning.warm_start.kin import carried_over, nearest_kin
from schedlang.tvm import program
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.workloads.workload import Workload

# Number of similar workloads, of those of other shapes, and of the fastest programs of each.
_WORKLOADS = 8
_KIN = 4
_OF_EACH = 2


def transfer(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> list[Match]:
    """Try schedules of similar programs on this machine, which must be the target.

    They are those of the family; without any, those of the nearest programs of other shapes
    (``Workload.kin_key``). A program that the database has a record of is not tried again. On
    another machine there are none. Programs that cannot be read are noted in ``unreadable``.

    Returns a match for each program that was tried, whether it succeeded or not, and for the
    unscheduled program last, if it was measured to the end. No database has their records yet.
    """
    try:
        target.check_present()
    except TargetError:
        return []
    found = list(_proposals(workload, target, database, unreadable))
    if not found:
        return []
    tried: list[Match] = []
    order = tuple(range(len(workload.args)))

    def enter(record: Record, schedule: Schedule, kind: Kind, note: str) -> None:
        note = f"no record for this program: {note}"
        timing = Timing(record)
        tried.append(Match(workload, record, schedule, kind, (note,), target, order, timing))

    blank = blank_record(workload, target, "transfer", None)
    with target.measurer(workload, verify="all") as measurer:
        candidates = [Candidate(proposal.id, proposal.schedule.mod) for proposal, *_ in found]
        for measured in measurer.measure(candidates):
            proposal, name, other_shapes = found[measured.id]
            record = replace(as_record(blank, proposal, measured), proposal=None)
            shapes = " of other shapes" if other_shapes else ""
            note = (
                f"applied the schedule of the similar program {name!r}{shapes}, verified and "
                "measured on this one"
            )
            enter(record, proposal.schedule, "kin" if other_shapes else "family", note)
        latency = measurer.reference_latency
        if measurer.reference_complete:
            record = unscheduled_record(blank, workload, latency)
            note = f"{len(tried)} schedules of similar ones were tried"
            enter(record, Schedule(workload), "same", note)
    return tried


def carried_schedules(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Iterator[tuple[Schedule, str]]:
    """Yield schedules of the nearest programs of other shapes, and the names of these.

    They are the fastest verified ones of a database, with the nearest tiles for this program, on
    which none was measured. Programs that cannot be read are noted in ``unreadable``.
    """
    moves = only_moves_data(workload.func)
    space = target.movement_space() if moves else target.default_space()
    kin = nearest_kin(database, workload, unreadable)
    tuned = ((key, source) for key, source in kin if _fastest(key, target, database))
    for key, source in islice(tuned, _KIN):
        for record in _fastest(key, target, database):
            schedule = carried_over(record, source, workload, space)
            if schedule is not None:
                yield schedule, record.workload_name


def _proposals(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Iterator[tuple[Proposal, str, bool]]:
    """Yield what traces of similar programs make of this one, and name and kind of the former."""
    tried: set[str] = set()
    for source in (_family, carried_schedules):
        for schedule, name in source(workload, target, database, unreadable):
            proposal = Proposal(len(tried), schedule)
            program_key = proposal.program_key
            known = database.query(
                workload.key, target.key, toolchain_key(), limit=1, program_key=program_key
            )
            if program_key not in tried and not known:
                tried.add(program_key)
                yield proposal, name, source is carried_schedules
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
