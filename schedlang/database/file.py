"""Opening an SQLite file as a schedlang database: checks and migrations."""

from __future__ import annotations

import os
import sqlite3
import time
import warnings
from contextlib import suppress
from pathlib import Path

from schedlang.database.place import (
    APPLICATION_ID,
    FROZEN_ID,
    MIGRATIONS,
    READABLE,
    REASONS,
    SCHEMA,
    SQLITE_ERRORS,
    beside,
    check_place,
    explain,
)
from schedlang.errors import DatabaseError
from schedlang.host import process_stat

_MAPPED = 1 << 36
_RETRY_SECONDS = 0.01
# The frames from a warning to the caller of ``open_database``.
_STACK_LEVEL = 5


def connect(path: Path, *, read_only: bool, busy_seconds: float) -> sqlite3.Connection:
    """Open ``path``, check that it is a sound database of ours, and bring its schema up to date.

    A missing file is created, unless ``read_only``. A file that came without its journal is opened
    with an ``IncompleteDatabaseWarning``. Raises ``DatabaseError``.
    """
    check_place(path, read_only)
    sealed = is_sealed(path)
    alone = not sealed and path.exists() and journal_size(path) <= 0
    try:
        # What lies beside a sealed file is not of it.
        connection = (
            _connection(path, "mode=ro&immutable=1", busy_seconds)
            if sealed
            else _open(path, read_only, busy_seconds)
        )
    except SQLITE_ERRORS as error:
        raise explain(path, error) from error
    try:
        if _check_owner(connection, path) == FROZEN_ID:
            check_frozen(path, read_only=read_only)
        _check_sound(connection, path)
        signs = signs_of_writing(connection) if alone else frozenset()
        if signs:
            # Unless another process has just opened it: its journal stays then. A connection that
            # only reads leaves an empty one.
            connection.close()
            alone = journal_size(path) < (1 if read_only else 0)
            connection = _open(path, read_only, busy_seconds)
            signs = signs & signs_of_writing(connection) if alone else frozenset()
        if not read_only:
            # A committed batch survives a power cut.
            connection.execute("PRAGMA synchronous=FULL")
        _migrate(connection, path, read_only)
        if not read_only:
            # Not before it has its tables: a file that cannot be made stays empty.
            _use_write_ahead_log(connection, busy_seconds)
            release_dead(connection)
        if signs:
            warnings.warn(describe(path), IncompleteDatabaseWarning, stacklevel=_STACK_LEVEL)
    except SQLITE_ERRORS as error:
        connection.close()
        raise explain(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def connect_memory() -> sqlite3.Connection:
    """Make an empty database in memory, with all tables."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    _bring_up_to_date(connection)
    return connection


def _connection(path: Path, options: str, busy_seconds: float) -> sqlite3.Connection:
    opened = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=busy_seconds,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # A file from elsewhere is not trusted: its schema may call no functions of SQLite's,
        # and a damaged page is noticed when it is read.
        opened.execute("PRAGMA trusted_schema=OFF")
        opened.execute("PRAGMA cell_size_check=ON")
        opened.execute("PRAGMA schema_version")
    except SQLITE_ERRORS:
        opened.close()
        raise
    return opened


def _open(path: Path, read_only: bool, busy_seconds: float) -> sqlite3.Connection:
    if not read_only:
        return _connection(path, "mode=rwc", busy_seconds)
    try:
        return _connection(path, "mode=ro", busy_seconds)
    except sqlite3.OperationalError:
        # In a folder that cannot be written SQLite cannot make its shared-memory file, and needs
        # none when no writer has left a journal behind.
        if beside(path, "-wal").exists():
            raise
        return _connection(path, "immutable=1", busy_seconds)


def _check_owner(connection: sqlite3.Connection, path: Path) -> int:
    # All from one moment: another process may be making the file.
    connection.execute("BEGIN")
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner not in (APPLICATION_ID, FROZEN_ID) and (owner or tables):
        raise DatabaseError(
            f"database {path}: it is another program's SQLite file; choose another path"
        )
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (programs,) = connection.execute(
        "SELECT count(*) FROM sqlite_master WHERE type NOT IN ('table', 'index') "
        "OR sql LIKE 'CREATE VIRTUAL%'"
    ).fetchone()
    connection.execute("COMMIT")
    if version < 0 or programs:
        reason = "its version is damaged" if version < 0 else "it has views or triggers of its own"
        raise DatabaseError(
            f"database {path}: {reason}, so it is no database of schedlang; choose another path"
        )
    if version > SCHEMA:
        raise DatabaseError(
            f"database {path}: it was written by a newer schedlang (schema {version}, this one "
            f"knows {SCHEMA}); upgrade schedlang, or choose another path"
        )
    return int(owner)


def _check_sound(connection: sqlite3.Connection, path: Path) -> None:
    # The check asks for pages in any order; mapped, the system reads what is beside them too. The
    # file must not be read past SQLite: closing it would give up all of SQLite's locks on it.
    connection.execute(f"PRAGMA mmap_size={_MAPPED}")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    connection.execute("PRAGMA mmap_size=0")
    if verdict != "ok":
        reason, remedy = REASONS["SQLITE_CORRUPT"]
        raise DatabaseError(f"database {path}: {reason} ({verdict.splitlines()[-1]}); {remedy}")


def _use_write_ahead_log(connection: sqlite3.Connection, busy_seconds: float) -> None:
    """Let readers go on while one process writes."""
    until = time.monotonic() + busy_seconds
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:
            # SQLite does not always wait for a process that does the same.
            if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() >= until:
                raise
            time.sleep(_RETRY_SECONDS)


def _migrate(connection: sqlite3.Connection, path: Path, read_only: bool) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA or (read_only and version >= READABLE):
        return
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if read_only and not tables:
        raise DatabaseError(
            f"database {path}: it has no tables; another process is making it, or it was copied "
            f"while it was in use or after a process was killed: copy {path.name}-wal too"
        )
    if read_only:
        raise DatabaseError(
            f"database {path}: it has schema {version} and {SCHEMA} is needed; "
            "open it once without read_only to bring it up to date"
        )
    _bring_up_to_date(connection)


def _bring_up_to_date(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Another process may have done it while this one waited for the lock.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for script in MIGRATIONS[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA}")
        connection.execute("COMMIT")
    except BaseException:
        # After a full disk SQLite may have gone back by itself; that error is the one to be seen.
        with suppress(*SQLITE_ERRORS):
            connection.execute("ROLLBACK")
        raise


# -- A file that came without its journal, the -wal file beside it --------------------------------

# Runs in progress; the owner is as ``this_process`` names one.
OWNED_RUNS = "FROM run WHERE owner GLOB '[0-9]*:*'"


class IncompleteDatabaseWarning(UserWarning):
    """A database file came without its ``-wal`` file, so that its newest records may be missing."""


def journal_size(path: Path) -> int:
    """Return the size in bytes of the journal beside a database file; -1 where there is none."""
    try:
        return beside(path, "-wal").stat().st_size
    except OSError:
        return -1


def signs_of_writing(connection: sqlite3.Connection) -> frozenset[str]:
    """Return what shows that the file was being written: claims of runs, or that it has no tables.

    Where the same sign is there before and after a moment without a journal, nobody has it.
    """
    with suppress(*SQLITE_ERRORS):  # it is read again, and what is wrong with it is said then
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if mode == "wal" and not tables:
            return frozenset({"no tables"})
        claims = connection.execute(f"SELECT id, owner {OWNED_RUNS}")
        return frozenset(f"{number} {owner}" for number, owner in claims)
    return frozenset()


def describe(path: Path) -> str:
    """Return what is wrong with a file that came without its journal, and the remedy."""
    return (
        f"database {path}: its newest records may be missing, because {path.name}-wal, which holds "
        "what was written last, is not beside it; the file was copied while it was in use or after "
        "a process was killed, or that file was deleted: copy both files together"
    )


def release_dead(connection: sqlite3.Connection) -> None:
    """Take back the claims of processes that were killed, now that their journal is read."""
    with suppress(*SQLITE_ERRORS):  # what is left of them is void, and may warn
        for number, owner in connection.execute(f"SELECT id, owner {OWNED_RUNS}").fetchall():
            if not is_alive(str(owner)):
                connection.execute(
                    "UPDATE run SET owner = '' WHERE id = ? AND owner = ?", (number, owner)
                )
                connection.execute("DELETE FROM claim WHERE run_id = ?", (number,))


# -- Frozen databases: files of winners that are final --------------------------------------------

# Where the header of an SQLite file has its application's id.
_OWNER, _HEADER = 68, 72


def is_sealed(path: Path) -> bool:
    """Whether a file is a frozen database, as it was written."""
    try:
        # Not of a file that somebody may write: to close it would end this process's locks.
        if path.stat().st_mode & 0o222:
            return False
        with path.open("rb") as file:
            return file.read(_HEADER)[_OWNER:_HEADER] == FROZEN_ID.to_bytes(4, "big")
    except OSError:
        return False


def check_frozen(path: Path, *, read_only: bool) -> None:
    """DatabaseError for a file that is to be written, or that has a journal beside it."""
    if not read_only:
        raise DatabaseError(
            f"database {path}: it is frozen: it has the winners of another one, and takes no more "
            "records; tune into another file, and freeze that"
        )
    for left in (beside(path, suffix) for suffix in ("-wal", "-journal")):
        if left.exists() and left.stat().st_size:
            raise DatabaseError(
                f"database {path}: it is frozen, and {left.name} beside it is of a file that was "
                "there before: remove that"
            )


# -- Which process works on a run: two of them would measure the same candidates ------------------


def this_process() -> str:
    """Return a text that names this process; no other one of this machine ever has it."""
    return f"{os.getpid()}:{_started(os.getpid())}"


def is_alive(owner: str) -> bool:
    """Whether the process that ``this_process`` named is still running."""
    number, _, started = owner.partition(":")
    if not number.isdigit():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except OverflowError:
        return False  # no process has such a number
    except OSError:
        pass  # it is another user's
    return _started(int(number)) == started


def _started(number: int) -> str:
    """Return when a process started, in the system's ticks; ``""`` where that is unknown."""
    stat = process_stat(number)
    if stat is None:
        return ""
    return "over" if stat.state in "ZX" else stat.started
