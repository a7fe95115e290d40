"""The record of a database that a verb is about, with its latency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from schedlang.cli.naming.machines import check_target, target_of
from schedlang.cli.naming.stored import Named, record_of, stored_key, workload_in
from schedlang.cli.verb import NothingFound, UsageError
from schedlang.errors import DatabaseError

if TYPE_CHECKING:
    from schedlang.database import Database, Record, Timing

_MOST_RUNS = 5


def chosen(
    database: Database,
    given: Named,
    what: str | None,
    words: Sequence[str],
    options: Mapping[str, bool],
    target: str | None = None,
) -> Timing:
    """Return the record with an id, the winner of a run, or the best of a workload.

    The winner of a run has the latency that the run found.

    Parameters
    ----------
    database: that of ``given``, opened.
    given: what the command line says of it: it may name a record or a run.
    what: an id; a workload as ``workload_in`` takes it; None for the only workload there is.
    words, options: as ``workload_in`` takes them.
    target: of the record; by default the one that the workload was measured on last.
    """
    from schedlang.database import timing_in

    if target is not None:
        check_target(target)
    if given.names_record:
        if what is not None or words:
            more = " ".join([*([] if what is None else [what]), *words])
            raise UsageError(f"{given.text} says which record is meant: leave out {more!r}")
        if given.record is None:
            return _winner(database, given.run)
        return timing_in(database, record_of(database, given.record))
    if what is not None and what.isdecimal():
        if words:
            raise UsageError(f"record {what} takes no sizes: leave out {' '.join(words)!r}")
        return timing_in(database, record_of(database, int(what)))
    stored = dict(database.workloads())
    if what is None:
        if len(stored) != 1:
            raise UsageError(_what_there_is(database, given, stored))
        [what] = stored
    known = stored_key(database, what, words, options)
    if known is not None:
        key, name = known
        exact = database.structural_keys(key)[0]
    else:
        workload = workload_in(database, what, words, options)
        key, name, exact = workload.key, workload.name, workload.exact_key
    equal = [one for one, _ in database.workloads(exact_key=exact)] if exact else []
    for one in dict.fromkeys([key, *equal]):
        if found := _best_of(database, one, target):
            return timing_in(database, found)
    raise NothingFound(
        f"the database has no record of {name} with a latency"
        + ("" if target is None else f" on {target}")
    )


def _what_there_is(database: Database, given: Named, stored: Mapping[str, str]) -> str:
    """Say which workloads, records and runs of a database one may name."""
    if not stored:
        return f"{given.text} has 0 workloads: nothing was measured into it"
    parts = [f"name one, such as {given.text} {next(iter(stored.values()))}: {_listed(stored)}"]
    if newest := database.query(limit=1):
        parts.append(f"or a record, as {given.text}@{newest[0].id}")
    if runs := database.runs()[-_MOST_RUNS:]:
        names = (f"{given.text}#{run.id} ({stored.get(run.workload_key, '?')})" for run in runs)
        parts.append(f"or the winner of a run: {', '.join(names)}")
    return f"{given.text} has {len(stored)} workloads; " + "; ".join(parts)


def _listed(stored: Mapping[str, str]) -> str:
    """Return the names of workloads, with the keys of those that share one."""
    names = list(stored.values())
    texts = [name if names.count(name) == 1 else f"{name} ({key})" for key, name in stored.items()]
    return ", ".join(sorted(texts))


def _winner(database: Database, run: int | None) -> Timing:
    from schedlang.database import history
    from schedlang.database.outcome import outcome_of

    try:
        outcome = outcome_of(history(database, run))
    except DatabaseError as error:
        raise NothingFound(str(error)) from error
    if outcome.timing is None:
        raise NothingFound(no_best(outcome.finished, run))
    return outcome.timing


def no_best(finished: str, run: int | None) -> str:
    """Say why a run has no best program; ``finished`` is why it ended."""
    why = finished or "it has not ended, and nothing in it has a latency yet"
    return f"run {run} has no best program: {why}"


def _best_of(database: Database, key: str, target: str | None) -> Record | None:
    from schedlang.database.ranking import best_record

    if target is not None:
        machine = target_of(target).key
    else:
        measured = [one for one in database.query(key) if one.ok]
        if not measured:
            return None
        machine = max(measured, key=lambda one: one.created).target_key
    return best_record(database, key, machine)
