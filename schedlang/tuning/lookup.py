"""``best()`` finds the best program of a workload in a database, ``apply()`` puts it in place."""

from __future__ import annotations

import os
import warnings
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from schedlang.database import Database, open_database
from schedlang.database.programs import Unreadable, put_program, replayed
from schedlang.errors import DatabaseError, WorkloadError
from schedlang.targets import Target, as_target, toolchain_key
from schedlang.tuning.match import Kind, Match
from schedlang.tuning.warm_start import Attempt, transfer
from schedlang.tvm import program
from schedlang.workloads.construct import as_workload, from_prim_func
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from tvm.ir import IRModule

# Number of records of a workload, and of workloads with the same exact key, that are tried.
_RECORDS = 16
_WORKLOADS = 8


class UntunedWarning(UserWarning):
    """A function has no record and stays unscheduled, or only one of a similar program."""


def best(
    workload: Workload | Any,
    target: Target | str = "cpu",
    database: Database | str | os.PathLike[str] | None = None,
    *,
    similar: bool = True,
) -> Match | None:
    """Return the fastest verified program that a database has for a workload, or None.

    Records of the same program come first, then those of programs with the same exact key; of
    each, records of this toolchain are preferred. With ``similar``, programs of the same family
    are next: their traces are applied to this workload, verified and measured on this machine,
    which takes some seconds. These records are kept; the fastest one is returned if it is faster
    than the unscheduled program.

    Parameters
    ----------
    workload: what ``tune`` takes.
    target: a ``Target`` or its name.
    database: a path or a ``Database``; a file is not changed unless something is measured.
    similar: whether to look for similar programs.

    Rows that would have been used and cannot be read are named by an ``UnreadableWarning``. Raises
    ``DatabaseError`` when the database cannot be opened, and for a path without a file.
    """
    workload, target = as_workload(workload), as_target(target)
    unreadable = Unreadable()
    with ExitStack() as stack:
        opened = _opened(database, stack)
        found = _find(workload, target, opened, database, similar, unreadable)
    unreadable.warn()
    return found


def apply(
    mod: IRModule | Any,
    database: Database | str | os.PathLike[str],
    target: Target | str = "cpu",
    *,
    similar: bool = False,
    strict: bool = False,
) -> IRModule:
    """Return a module with the best programs of a database in place of its functions.

    Functions that cannot be scheduled (Relax functions, functions with symbolic shapes or without
    blocks) stay as they are. So does a function that could be tuned but has no record; an
    ``UntunedWarning`` names it.

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
    if not program.is_module(mod):
        mod = as_workload(mod).mod
    replaced: dict[str, Any] = {}
    untuned: list[str] = []
    unreadable = Unreadable()
    with ExitStack() as stack:
        opened = _opened(database, stack)
        for name, func in program.named_functions(mod).items():
            try:
                workload = from_prim_func(func, name)
            except WorkloadError:
                continue
            found = _find(workload, target, opened, database, similar, unreadable)
            if found is None:
                untuned.append(name)
                continue
            if found.kind == "family":
                warnings.warn(f"{name}: {found.notes[0]}", UntunedWarning, stacklevel=2)
            replaced[name] = found.in_place_of(func)
    if unreadable and strict:
        raise DatabaseError(
            f"rows that cannot be read: {unreadable}; tune again, or leave out strict=True"
        )
    unreadable.warn()
    if untuned:
        message = f"no record for {', '.join(untuned)} on {target.key}: they stay unscheduled"
        if strict:
            raise DatabaseError(f"{message}; tune them first, or leave out strict=True")
        warnings.warn(message, UntunedWarning, stacklevel=2)
    return program.replace_functions(mod, replaced)


def _find(
    workload: Workload,
    target: Target,
    opened: Database,
    database: Database | str | os.PathLike[str] | None,
    similar: bool,
    unreadable: Unreadable,
) -> Match | None:
    found = _first_usable(workload, workload.key, "same", target, opened, unreadable)
    if found is None:
        found = _exact(workload, target, opened, unreadable)
    if found is None and similar:
        found = _similar(workload, target, opened, database, unreadable)
    return found


def _opened(database: Database | str | os.PathLike[str] | None, stack: ExitStack) -> Database:
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
    workload: Workload, target: Target, database: Database, unreadable: Unreadable
) -> Match | None:
    for key, _ in database.workloads(exact_key=workload.exact_key)[:_WORKLOADS]:
        if key != workload.key:
            found = _first_usable(workload, key, "exact", target, database, unreadable)
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
) -> Match | None:
    """Return the fastest record under a key that still applies; preferably of this toolchain."""
    source = unreadable.workload(database, key)
    if source is None or (kind == "same" and source != workload):
        return None  # of two programs with one hash
    order = _parameter_order(source, workload)
    if order is None:
        return None
    for toolchain in (toolchain_key(), None):
        for record in database.best(key, target.key, toolchain, n=_RECORDS, verified=True):
            # Blocks may have other names in the program that was stored first.
            programs = (source, workload) if kind == "same" else (source,)
            schedule = replayed(record, *programs, unreadable=unreadable)
            if schedule is not None:
                notes = []
                if kind == "exact":
                    notes.append(f"tuned as {record.workload_name!r}, which computes the same")
                if toolchain is None:
                    notes.append(f"measured with another toolchain: {record.toolchain_key}")
                return Match(workload, record, schedule, kind, tuple(notes), target, order)
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
    attempts, fastest = transfer(workload, target, opened, unreadable)
    if attempts:
        attempts = _kept(attempts, workload, opened, database)
    if fastest is None:
        return None
    found = attempts[fastest]
    note = (
        f"no record for this program: applied the schedule of the similar program {found.name!r}, "
        "verified and measured on this one"
    )
    order = tuple(range(len(workload.args)))
    return Match(workload, found.record, found.schedule, "family", (note,), target, order)


def _kept(
    attempts: list[Attempt],
    workload: Workload,
    opened: Database,
    database: Database | str | os.PathLike[str] | None,
) -> list[Attempt]:
    """Store the attempts' records; return them as they are where the file cannot be written."""
    try:
        with nullcontext(opened) if opened is database else open_database(database) as writable:
            # With the blocks' names that the traces have.
            put_program(writable, attempts[0].schedule.trace.workload or workload)
            records = writable.append([one.record for one in attempts])
    except DatabaseError:
        return attempts  # a file that may only be read: they are measured again the next time
    return [replace(one, record=record) for one, record in zip(attempts, records, strict=True)]
