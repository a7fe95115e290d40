"""What a command line names of databases: ``tune.db``, its run ``tune.db#2``, its record ``@7``."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from schedlang.cli.objects import UsageError, check_target, names_in, target_of
from schedlang.cli.programs import UnknownOperator, check_program, workload_of
from schedlang.cli.verb import NothingFound
from schedlang.cli.words import OPERATORS, operator_called
from schedlang.errors import DatabaseError
from schedlang.printed import nearest

if TYPE_CHECKING:
    from schedlang.database import Database, Record, RunHistory, Timing
    from schedlang.language.schedule import Schedule
    from schedlang.workloads.workload import Workload


class Named(NamedTuple):
    """A database, or a part of it.

    Attributes
    ----------
    text: as it was given. path: of the file.
    run, record: the id that is named; None without one.
    """

    text: str
    path: Path
    run: int | None = None
    record: int | None = None

    @property
    def names_record(self) -> bool:
        """Whether it names a record, by its id or as the winner of a run."""
        return self.run is not None or self.record is not None


# Behind the file: the sign, and the number of what it names.
_PART = re.compile(r"(?P<file>.+)(?P<sign>[#@])(?P<number>[^#@/]*)", re.DOTALL)
_PARTS = {"#": "run", "@": "record"}


def named(text: str) -> Named:
    """Read ``FILE``, ``FILE#RUN`` or ``FILE@RECORD``; UsageError where there is no such file.

    A file whose own name ends in this way is that file.
    """
    part = _PART.fullmatch(text)
    if part is None or Path(text).exists():
        return Named(text, existing(Path(text)))
    kind, number = _PARTS[part["sign"]], part["number"]
    if not number.isdecimal():
        sign = part["sign"]
        raise UsageError(f"{text!r}: the number of a {kind} follows {sign}, as in {sign}2")
    return Named(text, existing(Path(part["file"])), **{kind: int(number)})


def existing(path: Path) -> Path:
    """Return a database's path; UsageError where there is no such file."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the file of a database")
    if not path.exists():
        _refuse_part(path)
        names = [name for name in names_in(path.parent) if name.endswith((".db", ".sqlite"))]
        hint = nearest(path.name, names, path.with_name) or "; tune --database makes one"
        raise UsageError(f"{path}: there is no such database{hint}")
    return path


def opened(path: Path) -> Database:
    """Open a database to read it; UsageError where there is no such file."""
    from schedlang.database import open_database

    return open_database(existing(path), read_only=True)


def writable(path: Path) -> Path:
    """Return the path of a file that is going to be written; UsageError where it cannot be."""
    folder = path.parent
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the name of a file in it")
    if not folder.is_dir():
        raise UsageError(f"{path}: there is no folder {folder}; make it first")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise UsageError(f"{path} cannot be written; check the permissions, or give another path")
    return path


def check_for_c(c: bool, library: Path | None, option: str = "--library") -> None:
    """Raise UsageError for ``--c`` without a library, and LibraryError for one that C has not."""
    if not c:
        return
    if library is None:
        raise UsageError(f"--c goes with {option} FILE")
    from schedlang.targets.deployment.c_export import check_c

    check_c(library)


def database_to_write(path: Path) -> Path:
    """Return the path of a database that gets records; UsageError where it cannot be written."""
    if not path.exists():
        _refuse_part(path)
    return writable(path)


def _refuse_part(path: Path) -> None:
    """UsageError for ``tune.db#2``, where the file as a whole is meant."""
    part = _PART.fullmatch(str(path))
    if part is not None and part["number"].isdecimal() and Path(part["file"]).is_file():
        kind = _PARTS[part["sign"]]
        raise UsageError(f"{path} names a {kind}; give the database itself: {part['file']}")


def history_of(text: str) -> RunHistory:
    """Return the run that is named."""
    found = named(text)
    if found.record is not None:
        raise UsageError(f"{text!r} is a record; a run is named as {found.path}#1")
    return _history(found.path, found.run)


def _history(database: Database | Path, run: int | None) -> RunHistory:
    from schedlang.database import history

    try:
        return history(database, run)
    except DatabaseError as error:
        raise NothingFound(str(error)) from error


def histories_of(texts: Sequence[str]) -> dict[str, RunHistory]:
    """Return runs by the names that they were given."""
    if len(set(texts)) < len(texts):
        raise UsageError("the same run is named twice")
    return {text: history_of(text) for text in texts}


def record_of(database: Database, number: int) -> Record:
    """Return the record with an id."""
    found = database.get([number])
    if found:
        return found[0]
    held = database.count()
    newest = database.query(limit=1, after=number)
    more = f"; the next is {newest[0].id}" if newest else ""
    counted = "1 record" if held == 1 else f"{held:,} records"
    raise NothingFound(f"the database has no record {number}: it has {counted}{more}")


def stored_key(
    database: Database, what: str, words: Sequence[str], options: Mapping[str, bool]
) -> tuple[str, str] | None:
    """Return key and name of the workload that a database has under a name or key.

    None where it has none, and with sizes: the words then name a program as ``tune`` takes it. An
    operator may be stored under its other name. UsageError where several workloads have the name,
    and for words that name nothing. TVM is not imported.
    """
    operator = operator_called(what)
    names = {what}
    if operator is not None:
        names |= {operator.short, *(name for name, one in OPERATORS.items() if one is operator)}
    found = {key: name for key, name in database.workloads() if key == what or name in names}
    if not found or words:
        try:
            check_program(what, words, options)
        except UnknownOperator:
            if found:
                raise UsageError(
                    f"{what!r} is a workload of the database, and takes no sizes: leave out "
                    f"{' '.join(words)!r}"
                ) from None
            stored = sorted({name for _, name in database.workloads()})
            hint = nearest(what, stored) or f"; it has {', '.join(stored) or 'none'}"
            raise UsageError(f"the database has no workload {what!r}{hint}") from None
        return None
    if len(found) > 1:
        raise UsageError(
            f"the database has {len(found)} workloads called {what!r}; give the sizes, or one "
            f"of the keys: {', '.join(found)}"
        )
    [(key, name)] = found.items()
    return key, name if key == what else what


def workload_in(
    database: Database, what: str, words: Sequence[str], options: Mapping[str, bool]
) -> Workload:
    """Return a workload by the name or key that a database has it under, else as it is named.

    UsageError as of ``stored_key``.
    """
    stored = stored_key(database, what, words, options)
    if stored is None:
        return workload_of(what, words, options)
    from schedlang.database.programs import Unreadable

    unreadable = Unreadable()
    found = unreadable.workload(database, *stored)
    if found is None:
        raise NothingFound(f"the program of {what} cannot be read: {unreadable or 'it is lost'}")
    return found


def schedule_of(record: Record, database: Database) -> Schedule:
    """Apply the trace of a record to its program."""
    import schedlang.modules  # noqa: F401  (their instructions are known from then on)
    from schedlang.database.programs import Unreadable, replayed

    unreadable = Unreadable()
    workload = unreadable.workload(database, record.workload_key, record.workload_name)
    made = None if workload is None else replayed(record, workload, unreadable=unreadable)
    if made is None:
        why = str(unreadable) or "the database does not hold its program"
        raise NothingFound(f"record {record.id} cannot be applied: {why}")
    return made


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
    parts = [
        f"name one, such as {given.text} {next(iter(stored.values()))}: {_named_apart(stored)}"
    ]
    if newest := database.query(limit=1):
        parts.append(f"or a record, as {given.text}@{newest[0].id}")
    if runs := database.runs()[-_MOST_RUNS:]:
        names = (f"{given.text}#{run.id} ({stored.get(run.workload_key, '?')})" for run in runs)
        parts.append(f"or the winner of a run: {', '.join(names)}")
    return f"{given.text} has {len(stored)} workloads; " + "; ".join(parts)


def _named_apart(stored: Mapping[str, str]) -> str:
    """Return the names of workloads, with the keys of those that share one."""
    names = list(stored.values())
    texts = [name if names.count(name) == 1 else f"{name} ({key})" for key, name in stored.items()]
    return ", ".join(sorted(texts))


def _winner(database: Database, run: int | None) -> Timing:
    from schedlang.database.past_runs import outcome_of

    outcome = outcome_of(_history(database, run))
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
