"""Schedules of relatives of a program that has no record on a machine, and the race of them.

``leads`` yields schedules to try: of other machines, of the program's family, of programs of
other shapes. ``transfer`` races them on this machine against the default schedule. Those of
similar programs are rule 5 of deplodock, part 3.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from itertools import islice, takewhile

from schedlang.database import Database, FinalsEntry, Record, Timing, best_first, open_database
from schedlang.database.programs import Unreadable, put_program, replayed
from schedlang.errors import DatabaseError, TargetError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Measurer
from schedlang.measurement.measurer import DEFAULT_ID
from schedlang.measurement.problem import Problem
from schedlang.search import Proposal
from schedlang.spaces.space import Space
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.defaults import default_schedule
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.lookup.match import PACKED, WORKLOADS, Kind, Match
from schedlang.tuning.measuring import Measuring
from schedlang.tuning.records import (
    as_record,
    blank_record,
    finals_entries,
    packed_ahead,
    unscheduled_record,
)
from schedlang.tuning.session.warm_start import carried_over, nearest_kin
from schedlang.tvm import program
from schedlang.tvm.analysis.layout import only_moves_data
from schedlang.workloads.workload import Workload

# -- The race on this machine against the default schedule ----------------------------------------

# Planned seconds of the samples that are taken in turns.
_RACE_SECONDS = 4.0


@dataclass(frozen=True)
class _Tried:
    """A program that was measured; the id of its record is its place among those, from 1 on."""

    record: Record
    schedule: Schedule
    kind: Kind
    origin: str


def racing(target: Target, stack: ExitStack) -> Measuring:
    """Return what ``transfer`` measures with: workers start when one is needed, and stay."""
    return Measuring(None, target, Problem(verify="all"), stack)


def transfer(
    workload: Workload,
    target: Target,
    opened: Database,
    database: Database | str | os.PathLike[str] | None,
    measuring: Measuring,
    unreadable: Unreadable,
) -> Match | None:
    """Race schedules of relatives on this machine, which must be the target; return the fastest.

    The schedules are those of ``leads``, with the default schedule and the unscheduled program. All
    are verified and measured, and those that could be the fastest are timed in turns. The records
    are stored in ``database``, which is open as ``opened``, so that the next look-up finds the
    winner. None where there are no leads, where nothing succeeds, and on another machine.
    """
    try:
        target.check_present()
    except TargetError:
        return None
    found = leads(workload, target, opened, unreadable)
    if not found:
        return None
    default = default_schedule(found[0].proposal.trace.workload or workload, target)
    entered = _with_default(found, default, workload, target, opened)
    measurer = measuring.on(workload)
    tried = _measured(entered, workload, target, measurer)
    board = Leaderboard(len(entered), verified=True, kept=_key_of_default(entered))
    for one in tried:
        if one.record.unscheduled:
            board.add_unscheduled(one.record, one.schedule)
        else:
            board.add(one.record, one.schedule)
    finals, _ = board.hold_finals(
        lambda candidates, _: measurer.remeasure(candidates, budget_seconds=_RACE_SECONDS)
    )
    if not board.fastest_first:
        _keep(tried, [], workload, opened, database)
        return None
    entries = finals_entries(board, finals)
    [winner] = [one for one in tried if one.record.id == board.fastest_first[0].record.id]
    records = _keep(tried, entries, winner.schedule.trace.workload or workload, opened, database)
    record = records[tried.index(winner)]
    notes = [_note(winner, tried, entries, target)]
    if packed_ahead(record):
        notes.append(PACKED)
    return Match(
        workload,
        record,
        winner.schedule,
        winner.kind,
        tuple(notes),
        target,
        tuple(range(len(workload.args))),
        Timing(record, _entry_of(winner, entries)),
    )


def _with_default(
    found: Sequence[Lead], default: Schedule, workload: Workload, target: Target, opened: Database
) -> list[Lead]:
    """Return the default schedule, unless the database knows it, and what differs from it."""
    proposal = Proposal(DEFAULT_ID, default)
    others = [one for one in found if one.proposal.program_key != proposal.program_key]
    if not len(default.trace) or is_known(proposal, workload, target, opened):
        return others  # the unscheduled program is measured anyway
    return [Lead(proposal, "default", "took the default schedule"), *others]


def _key_of_default(entered: Sequence[Lead]) -> str:
    return next((one.proposal.program_key for one in entered if one.kind == "default"), "")


def _measured(
    entered: Sequence[Lead], workload: Workload, target: Target, measurer: Measurer
) -> list[_Tried]:
    """Verify and measure schedules, and the unscheduled program, which is last."""
    blank = blank_record(workload, target, "transfer", None)
    tried: list[_Tried] = []
    candidates = [
        Candidate.of(one.proposal.schedule, number, one.proposal.program_key)
        for number, one in enumerate(entered)
    ]
    for measurement in measurer.measure(candidates):
        lead = entered[measurement.id]
        record = as_record(blank, lead.proposal, measurement)
        record = replace(record, id=len(tried) + 1, proposal=None)
        tried.append(_Tried(record, lead.proposal.schedule, lead.kind, lead.origin))
    latency = measurer.reference_latency
    if measurer.reference_complete and 0 < latency < math.inf:
        record = replace(unscheduled_record(blank, workload, latency), id=len(tried) + 1)
        tried.append(_Tried(record, Schedule(workload), "same", ""))
    return tried


def _entry_of(one: _Tried, entries: Sequence[FinalsEntry]) -> FinalsEntry | None:
    return next((entry for entry in entries if entry.record_id == one.record.id and entry.ok), None)


def _note(
    winner: _Tried, tried: Sequence[_Tried], entries: Sequence[FinalsEntry], target: Target
) -> str:
    """Say what was taken, and how it did against the default schedule."""
    others = sum(one.kind not in ("same", "default") for one in tried)
    text = f"no record of this program on {target.key}: "
    if winner.kind == "same":
        return f"{text}the default schedule and {others} others were tried"
    if not others:
        return f"{text}{winner.origin}, verified here; those of its relatives are the same program"
    text += f"{winner.origin}, verified and raced here against "
    if winner.kind == "default":
        relatives = sorted({one.origin for one in tried if one.kind not in ("same", "default")})
        return f"{text}{others} others ({'; '.join(relatives)})"
    default = next((one for one in tried if one.kind == "default"), None)
    if default is None:
        return f"{text}the unscheduled program"
    if not default.record.ok:
        return f"{text}the default schedule, which fails ({default.record.status})"
    pair = [_entry_of(one, entries) for one in (default, winner)]
    slow, fast = (
        entry.latency if entry is not None and None not in pair else one.record.latency
        for entry, one in zip(pair, (default, winner), strict=True)
    )
    return f"{text}the default schedule: {slow / fast:.2f} times its speed"


def _keep(
    tried: Sequence[_Tried],
    entries: Sequence[FinalsEntry],
    program: Workload,
    opened: Database,
    database: Database | str | os.PathLike[str] | None,
) -> list[Record]:
    """Store the records; return them, without ids where the file cannot be written.

    That of the unscheduled program too: else the slower ones would be all that the next look-up
    finds. ``program`` has the names of blocks that the winner's trace has.
    """
    made = [replace(one.record, id=None) for one in tried]
    try:
        with (
            nullcontext(opened) if opened is database else open_database(database) as writable,
            writable.transaction(),
        ):
            put_program(writable, program)
            stored = writable.append(made)
            numbers = {one.record.id: new.id or 0 for one, new in zip(tried, stored, strict=True)}
            writable.add_finals(
                replace(entry, record_id=numbers[entry.record_id]) for entry in entries
            )
            return stored
    except DatabaseError:
        return made  # a file that may only be read: they are measured again the next time


# -- Schedules of the nearest relatives, to be tried ----------------------------------------------

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
