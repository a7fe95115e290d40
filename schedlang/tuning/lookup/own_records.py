"""Records of a workload itself, and of programs that compute the same, on one kind of machine."""

from __future__ import annotations

from collections.abc import Collection

from schedlang.database import Database, Record, best_first, timing_in
from schedlang.database.programs import Unreadable, replayed
from schedlang.errors import DatabaseError
from schedlang.formats.reader import same_steps
from schedlang.language.schedule import Schedule
from schedlang.targets import Target, toolchain_key
from schedlang.tuning.lookup.match import PACKED, UNVERIFIED, Kind, Match
from schedlang.tuning.records import packed_ahead
from schedlang.workloads.workload import Workload

RECORDS = 16
"""Number of records of a workload that are tried."""
WORKLOADS = 8
"""Number of workloads with the same exact key that are looked at."""


def equal(
    workload: Workload,
    target: Target,
    database: Database,
    unreadable: Unreadable,
    left_out: Collection[int | None],
) -> Match | None:
    """Return the best record of another program that computes the same."""
    for key, _ in database.workloads(exact_key=workload.exact_key)[:WORKLOADS]:
        if key != workload.key:
            found = first_usable(workload, key, "exact", target, database, unreadable, left_out)
            if found is not None:
                return found
    return None


def first_usable(
    workload: Workload,
    key: str,
    kind: Kind,
    target: Target,
    database: Database,
    unreadable: Unreadable,
    left_out: Collection[int | None],
) -> Match | None:
    """Return the best record under a key that still applies; preferably of this toolchain."""
    source = unreadable.workload(database, key)
    if source is None or (kind == "same" and source != workload):
        return None  # of two programs with one hash
    order = _parameter_order(source, workload)
    if order is None:
        return None
    for toolchain in (toolchain_key(),) if database.frozen else (toolchain_key(), None):
        for record in best_first(database, key, target.key, toolchain, n=RECORDS):
            if record.id in left_out:
                continue
            notes = []
            if record.unscheduled:
                schedule: Schedule | None = Schedule(workload)
                order = tuple(range(len(workload.args)))
                [fastest] = database.best(key, target.key, toolchain)
                if not fastest.verified:
                    notes.append(UNVERIFIED)
            else:
                # Blocks may have other names in the program that was stored first.
                programs = (source, workload) if kind == "same" else (source,)
                schedule = replayed(record, *programs, unreadable=unreadable)
                if schedule is not None and _is_another(record, schedule):
                    reason = f"host {record.provenance['host']} measured another program"
                    unreadable.note_record(record, DatabaseError(reason))
                    continue
            if schedule is not None:
                if kind == "exact":
                    notes.append(f"tuned as {record.workload_name!r}, which computes the same")
                if packed_ahead(record):
                    notes.append(PACKED)
                if toolchain is None:
                    notes.append(f"measured with another toolchain: {record.toolchain_key}")
                timing = timing_in(database, record)
                return Match(workload, record, schedule, kind, tuple(notes), target, order, timing)
    return None


def _is_another(record: Record, schedule: Schedule) -> bool:
    """Whether a host has sent a trace that makes another program than the one it names.

    A trace to which reading adds what older ones lack was another one when it was measured.
    """
    if "host" not in record.provenance or record.program_key == schedule.program_key:
        return False
    return same_steps(record.trace_json, schedule.trace.to_json())


def _parameter_order(source: Workload, workload: Workload) -> tuple[int, ...] | None:
    """Return the place in ``source`` of each parameter of ``workload``; None if shapes differ."""
    if source.key == workload.key:
        return tuple(range(len(workload.args)))
    theirs, ours = source.structure, workload.structure
    place = dict(zip(ours.parameters, theirs.parameters, strict=True))
    order = tuple(place[position] for position in range(len(workload.args)))
    for argument, other in zip(workload.args, order, strict=True):
        found = source.args[other]
        if (argument.shape, argument.dtype) != (found.shape, found.dtype):
            return None
    return order


def frozen_winner(
    workload: Workload,
    target: Target,
    database: Database,
    unreadable: Unreadable,
    left_out: Collection[int | None],
) -> Match:
    """Return the winner of a frozen database; DatabaseError where it is not there, or is refused.

    Which one it is does not depend on what this process can replay: that of the very program, else
    the fastest of those that compute the same.
    """
    keys = target.key, toolchain_key()
    others = [key for key, _ in database.workloads(exact_key=workload.exact_key)]
    records = database.query(workload.key, *keys) or [
        one for key in others for one in database.query(key, *keys)
    ]
    reason = "it was not frozen with it"
    if records:
        winner = min(records, key=lambda one: (timing_in(database, one).latency, one.id))
        kind: Kind = "same" if winner.workload_key == workload.key else "exact"
        found = first_usable(
            workload, winner.workload_key, kind, target, database, unreadable, left_out
        )
        # The unscheduled form of an equal program has a key of its own.
        if found is not None and (
            found.unscheduled or found.schedule.program_key == winner.program_key
        ):
            return found
        reason = "its winner cannot be compiled here"
        if found is not None:
            reason = "its winner makes another program here than where it was measured"
        elif unreadable:
            reason = unreadable.listed
    elif elsewhere := [one for key in {workload.key, *others} for one in database.query(key)]:
        reason = f"its winner is of {elsewhere[0].target_key} and {elsewhere[0].toolchain_key}"
    raise DatabaseError(
        f"the frozen database {database.path} has no program for {workload.name} on {keys[0]} "
        f"with {keys[1]}: {reason}; tune it, and freeze again"
    )
