"""The record of a database that a verb is about."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from schedlang.cli.naming.machines import target_of
from schedlang.cli.naming.stored import record_of, workload_in
from schedlang.cli.verb import NothingFound, UsageError

if TYPE_CHECKING:
    from schedlang.database import Database, Record


def chosen_record(
    database: Database,
    what: str | None,
    words: Sequence[str],
    options: Collection[str],
    target: str | None = None,
) -> Record:
    """Return the record with an id, or the best of a workload.

    Parameters
    ----------
    what: an id; a workload as ``workload_in`` takes it; None for the only workload there is.
    words, options: as ``workload_in`` takes them.
    target: of the record; by default the one that the workload was measured on last.
    """
    if what is not None and what.isdecimal():
        return record_of(database, int(what))
    stored = dict(database.workloads())
    if what is None:
        if len(stored) != 1:
            raise UsageError(
                f"the database has {len(stored)} workloads: name one, or the id of a record"
                + (f"; it has {', '.join(sorted(set(stored.values())))}" if stored else "")
            )
        [what] = stored
    workload = workload_in(database, what, words, options)
    equal = [key for key, _ in database.workloads(exact_key=workload.exact_key)]
    keys = dict.fromkeys([workload.key, *equal])
    found = [one for key in keys for one in _best_of(database, key, target)]
    if not found:
        raise NothingFound(
            f"the database has no record of {workload.name} with a latency"
            + ("" if target is None else f" on {target}")
        )
    return found[0]


def _best_of(database: Database, key: str, target: str | None) -> list[Record]:
    from schedlang.database import best_first

    if target is not None:
        machine = target_of(target).key
    else:
        measured = [one for one in database.query(key) if one.ok]
        if not measured:
            return []
        machine = max(measured, key=lambda one: one.created).target_key
    verified = best_first(database, key, machine)
    return verified or best_first(database, key, machine, verified=False)
