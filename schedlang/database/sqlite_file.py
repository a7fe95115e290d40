"""Opening an SQLite file as a schedlang database: checks, migrations, and errors in plain words."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from schedlang.errors import DatabaseError

# Stands in the file's header, so that another program's SQLite file is recognised.
APPLICATION_ID = 0x5343484C

# One script for each schema version; `user_version` says how many of them a file has seen.
# A seed is text because it may be wider than SQLite's 64-bit integers; samples are a JSON list.
MIGRATIONS = (
    """
    CREATE TABLE record (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        workload_key TEXT NOT NULL,
        workload_name TEXT NOT NULL,
        target_key TEXT NOT NULL,
        toolchain_key TEXT NOT NULL,
        trace_json TEXT NOT NULL,
        status TEXT NOT NULL,
        samples TEXT NOT NULL,
        latency REAL,
        message TEXT NOT NULL,
        verified INTEGER NOT NULL,
        search TEXT NOT NULL,
        seed TEXT,
        created REAL NOT NULL,
        stderr TEXT NOT NULL
    );
    CREATE INDEX record_by_latency ON record (workload_key, target_key, latency)
        WHERE latency IS NOT NULL;
    CREATE TABLE workload (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        script_json TEXT NOT NULL
    );
    """,
)
SCHEMA = len(MIGRATIONS)

_REASONS = {
    "SQLITE_BUSY": (
        "it is locked by another process",
        "wait for that process, stop it, or give this run a file of its own",
    ),
    "SQLITE_NOTADB": (
        "it is not an SQLite file, or its header is damaged",
        "choose another path, or move the file away",
    ),
    "SQLITE_CORRUPT": (
        "it is damaged",
        "copy what is readable with `sqlite3 FILE .recover`, or restore a backup",
    ),
    "SQLITE_READONLY": (
        "it cannot be written",
        "check the permissions of the file and its folder, or open it with read_only=True",
    ),
    "SQLITE_CANTOPEN": (
        "it cannot be opened",
        "check that the file exists and the permissions of it and its folder",
    ),
    "SQLITE_FULL": ("the disk is full", "free some space; nothing of this batch was stored"),
    "SQLITE_IOERR": ("reading or writing failed", "check the disk; a network folder will not do"),
}


def explain(path: Path, error: sqlite3.Error) -> DatabaseError:
    """A DatabaseError with the path, the reason and the remedy for what SQLite raised."""
    name = getattr(error, "sqlite_errorname", None) or ""
    for known, (reason, remedy) in _REASONS.items():
        if name.startswith(known):
            return DatabaseError(f"database {path}: {reason} ({error}); {remedy}")
    return DatabaseError(f"database {path}: SQLite refused: {error}")


def connect(path: Path, *, read_only: bool, busy_seconds: float) -> sqlite3.Connection:
    """Open ``path``, check that it is a sound database of ours, and bring its schema up to date.

    A missing file is created, unless ``read_only``. Raises ``DatabaseError``.
    """
    _check_place(path, read_only)
    try:
        connection = _open(path, read_only, busy_seconds)
    except sqlite3.Error as error:
        raise explain(path, error) from error
    try:
        _check_owner(connection, path)
        _check_sound(connection, path)
        if not read_only:
            # Readers go on while one process writes; a committed batch survives a power cut.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
        _migrate(connection, path, read_only)
    except sqlite3.Error as error:
        connection.close()
        raise explain(path, error) from error
    except DatabaseError:
        connection.close()
        raise
    return connection


def _check_place(path: Path, read_only: bool) -> None:
    if path.is_dir():
        raise DatabaseError(f"database {path}: it is a folder; give the path of a file in it")
    if not path.parent.is_dir():
        raise DatabaseError(
            f"database {path}: the folder {path.parent} does not exist; "
            "make it first, or choose another path"
        )
    if read_only and not path.exists():
        raise DatabaseError(
            f"database {path}: there is no such file to read; open it without read_only to make it"
        )


def _open(path: Path, read_only: bool, busy_seconds: float) -> sqlite3.Connection:
    def connection(options: str) -> sqlite3.Connection:
        opened = sqlite3.connect(
            f"{path.absolute().as_uri()}?{options}",
            uri=True,
            timeout=busy_seconds,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            opened.execute("PRAGMA schema_version")
        except sqlite3.Error:
            opened.close()
            raise
        return opened

    if not read_only:
        return connection("mode=rwc")
    try:
        return connection("mode=ro")
    except sqlite3.OperationalError:
        # In a folder that cannot be written SQLite cannot make its shared-memory file, and needs
        # none when no writer has left a journal behind.
        if path.with_name(path.name + "-wal").exists():
            raise
        return connection("immutable=1")


def _check_owner(connection: sqlite3.Connection, path: Path) -> None:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if owner != APPLICATION_ID and (owner or tables):
        raise DatabaseError(
            f"database {path}: it is another program's SQLite file; choose another path"
        )
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > SCHEMA:
        raise DatabaseError(
            f"database {path}: it was written by a newer schedlang (schema {version}, this one "
            f"knows {SCHEMA}); upgrade schedlang, or choose another path"
        )


def _check_sound(connection: sqlite3.Connection, path: Path) -> None:
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        reason, remedy = _REASONS["SQLITE_CORRUPT"]
        raise DatabaseError(f"database {path}: {reason} ({verdict.splitlines()[-1]}); {remedy}")


def _migrate(connection: sqlite3.Connection, path: Path, read_only: bool) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == SCHEMA:
        return
    if read_only:
        raise DatabaseError(
            f"database {path}: it has schema {version} and {SCHEMA} is needed; "
            "open it once without read_only to bring it up to date"
        )
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
        connection.execute("ROLLBACK")
        raise
