"""Schedules to try on a program that has no record on a machine: of the nearest relatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, takewhile

from schedlang.database import Database, Record, best_first
from schedlang.database.programs import Unreadable, replayed
from schedlang.language.schedule import Schedule
from schedlang.search import Proposal
from schedlang.spaces.space import Space
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.lookup.match import Kind
from schedlang.tuning.lookup.own_records import WORKLOADS
from schedlang.tuning.warm_start.kin import carried_over, nearest_kin
from schedlang.tvm import program
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.workloads.workload import Workload

# Number of programs of other machines, of programs of other shapes, and of the fastest records of
# each program on each machine.
_OF_MACHINES = 4
_KIN = 4
_OF_EACH = 2


@dataclass(frozen=True)
class Lead:
    """A schedule to try.

    Attributes
    ----------
    proposal: the schedule, of the workload that was looked up.
    kind: of the match that it makes.
    origin: where it is from, as part of a sentence.
    """

    proposal: Proposal
    kind: Kind
    origin: str


def leads(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> list[Lead]:
    """Return schedules of the nearest relatives that have any.

    These are, in this order: the program itself on other machines, the nearest machine first
    (``Target.relatives``); programs of its family on this one; programs of other shapes on this
    one. A program that the database has a record of is not among them. Rows that cannot be read are
    noted in ``unreadable``.
    """
    for source, most in ((_of_machines, _OF_MACHINES), (_of_family, None), (_of_kin, None)):
        found = _unknown(source(workload, target, database, unreadable), workload, target, database)
        if some := list(islice(found, most)):
            return some
    return []


def leads_of_kin(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Iterator[Lead]:
    """Yield schedules of programs of other shapes on this machine alone, as ``leads`` has them."""
    yield from _unknown(_of_kin(workload, target, database, unreadable), workload, target, database)


def recorded_elsewhere(workload: Workload, target: Target, database: Database) -> list[str]:
    """Return keys of other machines with records of a program, those nearest to a target first."""
    keys = {key for one in _equal(workload, database) for key in database.target_keys(one)}
    return target.relatives(keys)


def carried_schedules(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Iterator[tuple[Schedule, Record]]:
    """Yield schedules of the nearest programs of other shapes, and the records that they are of.

    These are the fastest verified ones of a database; the schedules have the nearest tiles for this
    program. Programs that cannot be read are noted in ``unreadable``.
    """
    space = _space(workload, target)
    kin = nearest_kin(database, workload, unreadable)
    tuned = ((key, source) for key, source in kin if _fastest(key, target, database))
    for key, source in islice(tuned, _KIN):
        for record in _fastest(key, target, database):
            schedule = carried_over(record, source, workload, space)
            if schedule is not None:
                yield schedule, record


_Found = Iterator[tuple[Schedule, Kind, str]]


def _unknown(
    found: _Found, workload: Workload, target: Target, database: Database
) -> Iterator[Lead]:
    """Yield those that differ from each other, and of which the database has no record."""
    seen: set[str] = set()
    for schedule, kind, origin in found:
        proposal = Proposal(len(seen), schedule)
        if proposal.program_key not in seen and not is_known(proposal, workload, target, database):
            seen.add(proposal.program_key)
            yield Lead(proposal, kind, origin)


def is_known(proposal: Proposal, workload: Workload, target: Target, database: Database) -> bool:
    """Tell whether the database has a record of a program on this machine."""
    keys = workload.key, target.key, toolchain_key()
    return bool(database.query(*keys, limit=1, program_key=proposal.program_key))


def _equal(workload: Workload, database: Database) -> list[str]:
    """Return the keys of the program, and of others that compute the same."""
    others = (key for key, _ in database.workloads(exact_key=workload.exact_key))
    return [workload.key, *(key for key in others if key != workload.key)][: 1 + WORKLOADS]


def _of_machines(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> _Found:
    """Yield schedules of other machines: fitted to this one, and as they are."""
    machines = recorded_elsewhere(workload, target, database)
    if not machines:
        return
    space = _space(workload, target)
    sources = [(key, unreadable.workload(database, key)) for key in _equal(workload, database)]
    for machine in machines:
        for key, source in sources:
            base = None if source is None else _with_blocks_of(source, workload)
            if source is None or base is None:
                continue
            fastest = best_first(database, key, machine, n=_OF_EACH)[:_OF_EACH]
            for record in takewhile(lambda one: not one.unscheduled, fastest):
                refitted = carried_over(record, source, base, space)
                if refitted is not None:
                    yield refitted, "device", f"re-fitted a schedule of {machine}"
                noted = unreadable if refitted is None else None
                unchanged = replayed(record, base, unreadable=noted)
                if unchanged is not None:
                    yield unchanged, "device", f"took a schedule of {machine} as it is"


def _of_family(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> _Found:
    """Yield schedules of programs of the family."""
    for key, _ in database.workloads(family_key=workload.family_key)[:WORKLOADS]:
        source = unreadable.workload(database, key)
        base = None if source is None else _with_blocks_of(source, workload)
        if base is None:
            continue
        for record in _fastest(key, target, database):
            schedule = replayed(record, base)
            if schedule is not None:
                yield schedule, "family", _of_similar(record)


def _of_kin(
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> _Found:
    """Yield schedules of the nearest programs of other shapes."""
    for schedule, record in carried_schedules(workload, target, database, unreadable):
        yield schedule, "kin", f"{_of_similar(record)} of other shapes"


def _of_similar(record: Record) -> str:
    return f"applied the schedule of the similar program {record.workload_name!r}"


def _space(workload: Workload, target: Target) -> Space:
    return target.movement_space() if only_moves_data(workload.func) else target.default_space()


def _fastest(key: str, target: Target, database: Database) -> list[Record]:
    """Return the fastest records of a workload; what is slower than no schedule is of no use."""
    found = database.best(key, target.key, n=_OF_EACH, verified=True)
    return list(takewhile(lambda record: not record.unscheduled, found))


def _with_blocks_of(source: Workload, workload: Workload) -> Workload | None:
    """Return ``workload`` with the names of the blocks of another program, matched by their order.

    None where they cannot be matched.
    """
    theirs, ours = source.structure.blocks, workload.structure.blocks
    if theirs == ours:
        return workload
    if len(theirs) != len(ours) or len(set(theirs)) != len(theirs):
        return None
    named = program.rename_blocks(workload.func, dict(zip(ours, theirs, strict=True)))
    return Workload(program.as_main(named), workload.name)
