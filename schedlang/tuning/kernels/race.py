"""The race of candidates of several origins on this machine: measured, ranked and stored.

``race`` is that of schedules of a program's relatives against the default schedule, for a program
that has no record on this machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from schedlang.database import Database, FinalsEntry, Record, Timing, open_database
from schedlang.database.programs import put_program
from schedlang.errors import DatabaseError, TargetError
from schedlang.language.schedule import Schedule
from schedlang.measurement import Candidate, Measurer
from schedlang.measurement.measurer import DEFAULT_ID
from schedlang.search import Proposal
from schedlang.targets import Target
from schedlang.tuning.kernels.defaults import default_schedule
from schedlang.tuning.kernels.match import PACKED, Match
from schedlang.tuning.kernels.rungs import Lead, Rungs
from schedlang.tuning.leaderboard import Leaderboard
from schedlang.tuning.measuring import Measuring
from schedlang.tuning.records import (
    as_record,
    blank_record,
    finals_entries,
    packed_ahead,
    unscheduled_record,
)
from schedlang.workloads.workload import Workload

# Planned seconds of the samples that are taken in turns.
_RACE_SECONDS = 4.0


@dataclass(frozen=True)
class Tried:
    """A schedule that was measured, and the record of it."""

    record: Record
    lead: Lead


def measured(leads: Sequence[Lead], blank: Record, measurer: Measurer) -> Iterator[Tried]:
    """Measure schedules and yield each when it is done; ``blank`` has what the records share."""
    candidates = [
        Candidate.of(one.proposal.schedule, number, one.proposal.program_key)
        for number, one in enumerate(leads)
    ]
    for measurement in measurer.measure(candidates):
        lead = leads[measurement.id]
        yield Tried(replace(as_record(blank, lead.proposal, measurement), proposal=None), lead)


def race(
    workload: Workload,
    rungs: Rungs,
    database: Database | str | os.PathLike[str] | None,
    measuring: Measuring,
) -> Match | None:
    """Race schedules of relatives on this machine, which must be the target; return the fastest.

    The schedules are those of ``Rungs.nearest``, with the default schedule and the unscheduled
    program. All are verified and measured, and those that could be the fastest are timed in turns.
    The records are stored in ``database``, which ``rungs`` has open, so that the next look-up finds
    the winner. None where there are no leads, where nothing succeeds, and on another machine.
    """
    target = rungs.target
    try:
        target.check_present()
    except TargetError:
        return None
    found = rungs.nearest(workload)
    if not found:
        return None
    default = default_schedule(found[0].proposal.trace.workload or workload, target)
    entered = _with_default(found, default, workload, rungs)
    measurer = measuring.on(workload)
    tried = _tried(entered, workload, target, measurer)
    kept = next((one.proposal.program_key for one in entered if one.kind == "default"), "")
    board = Leaderboard(len(entered), verified=True, kept=kept)
    for one in tried:
        enter = board.add_unscheduled if one.record.unscheduled else board.add
        enter(one.record, one.lead.proposal.schedule)
    finals, _ = board.hold_finals(
        lambda candidates, _: measurer.remeasure(candidates, budget_seconds=_RACE_SECONDS)
    )
    if not board.fastest_first:
        _keep(tried, [], workload, rungs.database, database)
        return None
    entries = finals_entries(board, finals)
    [winner] = [one for one in tried if one.record.id == board.fastest_first[0].record.id]
    schedule = winner.lead.proposal.schedule
    records = _keep(tried, entries, schedule.trace.workload or workload, rungs.database, database)
    record = records[tried.index(winner)]
    notes = [_note(winner, tried, entries, target)]
    if packed_ahead(record):
        notes.append(PACKED)
    return Match(
        workload,
        record,
        schedule,
        winner.lead.kind,
        tuple(notes),
        target,
        tuple(range(len(workload.args))),
        Timing(record, _entry_of(winner, entries)),
    )


def _with_default(
    found: Sequence[Lead], default: Schedule, workload: Workload, rungs: Rungs
) -> list[Lead]:
    """Return the default schedule, unless the database knows it, and what differs from it."""
    proposal = Proposal(DEFAULT_ID, default)
    others = [one for one in found if one.proposal.program_key != proposal.program_key]
    if not len(default.trace) or rungs.is_known(proposal, workload):
        return others  # the unscheduled program is measured anyway
    return [Lead(proposal, "default", "took the default schedule"), *others]


def _tried(
    entered: Sequence[Lead], workload: Workload, target: Target, measurer: Measurer
) -> list[Tried]:
    """Verify and measure schedules, and the unscheduled program, which is last.

    The id of a record is its place among those, from 1 on.
    """
    blank = blank_record(workload, target, "transfer", None)
    tried = [
        replace(one, record=replace(one.record, id=number))
        for number, one in enumerate(measured(entered, blank, measurer), 1)
    ]
    latency = measurer.reference_latency
    if measurer.reference_complete and 0 < latency < math.inf:
        record = replace(unscheduled_record(blank, workload, latency), id=len(tried) + 1)
        tried.append(Tried(record, Lead(Proposal(0, Schedule(workload)), "same", "")))
    return tried


def _entry_of(one: Tried, entries: Sequence[FinalsEntry]) -> FinalsEntry | None:
    return next((entry for entry in entries if entry.record_id == one.record.id and entry.ok), None)


def _note(
    winner: Tried, tried: Sequence[Tried], entries: Sequence[FinalsEntry], target: Target
) -> str:
    """Say what was taken, and how it did against the default schedule."""
    relatives = [one.lead.origin for one in tried if one.lead.kind not in ("same", "default")]
    text, taken = f"no record of this program on {target.key}: ", winner.lead
    if taken.kind == "same":
        return f"{text}the default schedule and {len(relatives)} others were tried"
    if not relatives:
        return f"{text}{taken.origin}, verified here; those of its relatives are the same program"
    text += f"{taken.origin}, verified and raced here against "
    if taken.kind == "default":
        return f"{text}{len(relatives)} others ({'; '.join(sorted(set(relatives)))})"
    default = next((one for one in tried if one.lead.kind == "default"), None)
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
    tried: Sequence[Tried],
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
