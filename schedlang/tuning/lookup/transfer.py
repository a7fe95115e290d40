"""Schedules of relatives, raced on this machine against the default schedule.

Those of similar programs are rule 5 of deplodock, part 3.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace

from schedlang.database import Database, FinalsEntry, Record, Timing, open_database
from schedlang.database.programs import Unreadable, put_program
from schedlang.errors import DatabaseError, TargetError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Measurer
from schedlang.measurement.measurer import DEFAULT_ID
from schedlang.measurement.problem import Problem
from schedlang.search import Proposal
from schedlang.targets import Target
from schedlang.tuning.defaults import default_schedule
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.lookup.leads import Lead, is_known, leads
from schedlang.tuning.lookup.match import PACKED, Kind, Match
from schedlang.tuning.records import (
    as_record,
    blank_record,
    finals_entries,
    packed_ahead,
    unscheduled_record,
)
from schedlang.tuning.session import Measuring
from schedlang.workloads.workload import Workload

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
    entry = _entry_of(winner, entries)
    record = records[tried.index(winner)]
    notes = [_note(winner, tried, entries, target)]
    if packed_ahead(record):
        notes.append(PACKED)
    order = tuple(range(len(workload.args)))
    timing = Timing(record, entry)
    return Match(
        workload, record, winner.schedule, winner.kind, tuple(notes), target, order, timing
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
