"""``best()`` finds the best program of a workload in a database, ``apply()`` puts it in place."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schedlang.database import Database, Record, Timing, best_first, open_database, timing_in
from schedlang.database.programs import Unreadable, put_program, replayed
from schedlang.errors import DatabaseError, WorkloadError
from schedlang.language.schedule import Schedule
from schedlang.printed import listed
from schedlang.targets import Target, as_target, toolchain_key
from schedlang.tuning.lookup.match import Kind, Match
from schedlang.tuning.lookup.transfer import transfer
from schedlang.tuning.records import packed_ahead
from schedlang.tvm import program
from schedlang.tvm.codegen.pipeline import written_for_tvm
from schedlang.workloads.construct import as_workload, from_prim_func
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

RECORDS = 16
"""Number of records of a workload that are tried."""
# Number of workloads with the same exact key that are looked at.
_WORKLOADS = 8
UNVERIFIED = "there are faster records that were not verified"
_PACKED = "the latency leaves out packing, which sl.compile_network does once, ahead of all calls"


class PackingWarning(UserWarning):
    """A function packs weights in each call; its record was measured with weights packed ahead."""


class UntunedWarning(UserWarning):
    """A function stays unscheduled without a verified record, or has one of a similar program."""


def best(
    workload: Workload | Any,
    target: Target | str = "cpu",
    database: Database | str | os.PathLike[str] | None = None,
    *,
    similar: bool = True,
) -> Match | None:
    """Return the best verified program that a database has for a workload, or None.

    Records of the same program come first, then those of programs with the same exact key; of
    each, records of this toolchain are preferred. Of the records of one program the winner of the
    newest finals comes first, unless one that took no part in them is clearly faster, by more than
    10%; without finals it is the fastest. The unscheduled program is one of them, as ``tune``
    measures it too: where nothing is faster, the match is the program as it is
    (``Match.unscheduled``).

    With ``similar``, programs of the same family are next: their traces are applied to this
    workload, verified and measured on this machine, which takes some seconds. These records are
    kept, with that of the unscheduled program; the fastest is returned. Where the family has none,
    it is the schedules of programs of other shapes (``Workload.kin_key``), with the nearest tiles.

    Parameters
    ----------
    workload: what ``tune`` takes.
    target: a ``Target`` or its name.
    database: a path or a ``Database``; a file is not changed unless something is measured.
    similar: whether to look for similar programs.

    Rows that would have been used and cannot be read are named by an ``UnreadableWarning``. Raises
    ``DatabaseError`` when the database cannot be opened, for a path without a file, and where a
    frozen one (``schedlang.freeze``) does not have the program.
    """
    workload, target = as_workload(workload), as_target(target)
    unreadable = Unreadable()
    with ExitStack() as stack:
        opened = opened_for_reading(database, stack)
        found = find(workload, target, opened, database, similar, unreadable)
    unreadable.warn()
    return found


def apply(
    mod: TensorProgram | Any,
    database: Database | str | os.PathLike[str],
    target: Target | str = "cpu",
    *,
    similar: bool = False,
    strict: bool = False,
) -> TensorProgram:
    """Return a module with the best programs of a database in place of its functions.

    A function stays as it is where the database says that no candidate is faster. An index that
    TVM 0.27's own pipeline would compute wrongly is written so that it computes it right.

    Functions that cannot be scheduled (Relax functions, functions with symbolic shapes or without
    blocks) stay as they are. So does a function that could be tuned but has no record; an
    ``UntunedWarning`` names it, and one whose faster records were not verified. A function whose
    record was measured with weights packed ahead is complete here, and packs them in each call: a
    ``PackingWarning`` names it. ``compile_network`` packs them once.

    Parameters
    ----------
    mod: an IRModule, or anything that ``tune`` takes.
    database: a path or a ``Database``.
    target: a ``Target`` or its name.
    similar: also use records of similar programs, as ``best`` does; a warning names them.
    strict: DatabaseError instead of the warning, and instead of the ``UnreadableWarning`` for rows
        that cannot be read.
    """
    target = as_target(target)
    if not isinstance(mod, program.TensorProgram):
        mod = as_workload(mod).mod
    replaced: dict[str, Any] = {}
    untuned: list[str] = []
    packing: list[str] = []
    unreadable = Unreadable()
    with ExitStack() as stack:
        opened = opened_for_reading(database, stack)
        for name, func in program.named_functions(mod).items():
            try:
                workload = from_prim_func(func, name)
            except WorkloadError:
                continue
            found = find(workload, target, opened, database, similar, unreadable)
            if found is None:
                untuned.append(name)
                continue
            if found.kind in ("family", "kin"):
                warnings.warn(f"{name}: {found.notes[0]}", UntunedWarning, stacklevel=2)
            if not found.unscheduled:
                replaced[name] = found.in_place_of(func)
                if packed_ahead(found.record):
                    packing.append(name)
            elif UNVERIFIED in found.notes:
                text = f"{name} stays unscheduled: {UNVERIFIED}; tune it with verify=True"
                warnings.warn(text, UntunedWarning, stacklevel=2)
    if unreadable and strict:
        raise DatabaseError(
            f"tune again, or leave out strict=True: rows cannot be read: {unreadable.listed}"
        )
    unreadable.warn()
    if untuned:
        names = listed(untuned)
        if strict:
            raise DatabaseError(
                f"tune first, or leave out strict=True: no record on {target.key} for: {names}"
            )
        message = f"what has no record on {target.key} stays unscheduled: {names}"
        warnings.warn(message, UntunedWarning, stacklevel=2)
    if packing:
        message = f"each call packs the weights, and {_PACKED}: {listed(packing)}"
        warnings.warn(message, PackingWarning, stacklevel=2)
    return written_for_tvm(program.replace_functions(mod, replaced))


def find(
    workload: Workload,
    target: Target,
    opened: Database,
    database: Database | str | os.PathLike[str] | None,
    similar: bool,
    unreadable: Unreadable,
    left_out: Collection[int | None] = (),
) -> Match | None:
    """Return what ``best`` returns, but for the records with the ids in ``left_out``.

    ``opened`` is ``database``, opened. Rows that cannot be read are noted in ``unreadable``.
    """
    if opened.frozen:
        return _winner(workload, target, opened, unreadable, left_out)
    found = _first_usable(workload, workload.key, "same", target, opened, unreadable, left_out)
    if found is None or found.unscheduled:
        other = _exact(workload, target, opened, unreadable, left_out)
        if found is None or (other is not None and other.latency < found.latency):
            found = other
    if found is None and similar:
        found = _similar(workload, target, opened, database, unreadable)
    return found


def was_tuned(record: Record, database: Database) -> bool:
    """Return whether candidates were measured besides the unscheduled program of a record."""
    if database.frozen:
        return True  # nothing else of them was kept
    measured = database.query(record.workload_key, record.target_key)
    return not all(one.unscheduled for one in measured)


def _winner(
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
        found = _first_usable(
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


def opened_for_reading(
    database: Database | str | os.PathLike[str] | None, stack: ExitStack
) -> Database:
    """Return a database; a file is open until ``stack`` closes. DatabaseError without a file."""
    if isinstance(database, Database):
        return database
    if database is None:
        raise DatabaseError("give the database to look in: a path or a Database")
    if isinstance(database, str | os.PathLike) and not os.path.exists(database):
        raise DatabaseError(
            f"database {os.fspath(database)}: there is no such file to read; tune(..., "
            f"database={os.fspath(database)!r}) makes it and puts its records there"
        )
    return stack.enter_context(open_database(database, read_only=True))


# -- records of the workload itself, and of equal ones ------------------------------------------


def _exact(
    workload: Workload,
    target: Target,
    database: Database,
    unreadable: Unreadable,
    left_out: Collection[int | None],
) -> Match | None:
    for key, _ in database.workloads(exact_key=workload.exact_key)[:_WORKLOADS]:
        if key != workload.key:
            found = _first_usable(workload, key, "exact", target, database, unreadable, left_out)
            if found is not None:
                return found
    return None


def _first_usable(
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
            if schedule is not None:
                if kind == "exact":
                    notes.append(f"tuned as {record.workload_name!r}, which computes the same")
                if packed_ahead(record):
                    notes.append(_PACKED)
                if toolchain is None:
                    notes.append(f"measured with another toolchain: {record.toolchain_key}")
                timing = timing_in(database, record)
                return Match(workload, record, schedule, kind, tuple(notes), target, order, timing)
    return None


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


def _similar(
    workload: Workload,
    target: Target,
    opened: Database,
    database: Database | str | os.PathLike[str] | None,
    unreadable: Unreadable,
) -> Match | None:
    tried = transfer(workload, target, opened, unreadable)
    if not tried:
        return None
    kept = [one for one in _kept(tried, opened, database) if one.record.ok and one.record.verified]
    # Of equal ones the unscheduled program.
    return min(kept, key=lambda one: (one.latency, not one.unscheduled), default=None)


def _kept(
    tried: list[Match],
    opened: Database,
    database: Database | str | os.PathLike[str] | None,
) -> list[Match]:
    """Store the records; return them as they are where the file cannot be written.

    That of the unscheduled program too: else the slower ones would be all that the next look-up
    finds.
    """
    try:
        with nullcontext(opened) if opened is database else open_database(database) as writable:
            # With the blocks' names that the traces have.
            put_program(writable, tried[0].trace.workload or tried[0].workload)
            records = writable.append(one.record for one in tried)
    except DatabaseError:
        return tried  # a file that may only be read: they are measured again the next time
    return [
        replace(one, record=record, timing=Timing(record))
        for one, record in zip(tried, records, strict=True)
    ]
