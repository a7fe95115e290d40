"""The record of a database that a verb is about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from schedlang.cli.naming.machines import target_of
from schedlang.cli.naming.stored import Named, record_of, workload_in
from schedlang.cli.verb import NothingFound, UsageError

if TYPE_CHECKING:
    from schedlang.database import Database, Record
    from schedlang.tuning import TuneResult


def chosen_record(
    database: Database,
    given: Named,
    what: str | None,
    words: Sequence[str],
    options: Collection[str],
    target: str | None = None,
) -> Record:
    """Return the record with an id, the winner of a run, or the best of a workload.

    Parameters
    ----------
    database: that of ``given``, opened.
    given: what the command line says of it: it may name a record or a run.
    what: an id; a workload as ``workload_in`` takes it; None for the only workload there is.
    words, options: as ``workload_in`` takes them.
    target: of the record; by default the one that the workload was measured on last.
    """
    if given.names_record:
        if what is not None or words:
            more = " ".join([*([] if what is None else [what]), *words])
            raise UsageError(f"{given.text} says which record is meant: leave out {more!r}")
        return named_record(database, given)
    if what is not None and what.isdecimal():
        if words:
            raise UsageError(f"record {what} takes no sizes: leave out {' '.join(words)!r}")
        return record_of(database, int(what))
    stored = dict(database.workloads())
    if what is None:
        if len(stored) != 1:
            raise UsageError(
                f"the database has {len(stored)} workloads: name one, or the id of a record"
                + (f"; it has {_listed(stored)}" if stored else "")
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


def _listed(stored: Mapping[str, str]) -> str:
    """Return the names of workloads, with the keys of those that share one."""
    names = list(stored.values())
    texts = [name if names.count(name) == 1 else f"{name} ({key})" for key, name in stored.items()]
    return ", ".join(sorted(texts))


def named_record(database: Database, given: Named) -> Record:
    """Return the record that ``tune.db@12`` names, or the winner of the run ``tune.db#2``."""
    if given.record is not None:
        return record_of(database, given.record)
    from schedlang.tuning import read_result

    result = read_result(database, given.run)
    if not result.has_best:
        raise NothingFound(no_best(result, given.run))
    return result.best.record


def no_best(result: TuneResult, run: int | None) -> str:
    """Say why a run has no best program."""
    why = result.finished or "it has not ended, and nothing in it has a latency yet"
    return f"run {run} has no best program: {why}"


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
