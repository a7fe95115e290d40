"""The file of a database: where it may lie, what its errors mean, and which tables it has."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
from pathlib import Path

from schedlang.errors import DatabaseError

# -- Whether a database file can be at a path: checked before SQLite opens it ---------------------
#
# Opening a named pipe may never return, and the system's own errors name no remedy.

IN_MEMORY = ":memory:"
"""The path of a database that is no file."""

BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite keeps beside a file: endings of its name."""
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_REFUSALS = {
    errno.ENAMETOOLONG: "choose a shorter one",
    errno.ELOOP: "its symbolic links lead in a circle; remove one of them",
    errno.EACCES: "check the permissions of its folders",
}
# Longer paths are cut in messages.
_SHOWN = 200


def check_name(given: str | os.PathLike[str]) -> None:
    """DatabaseError for a name that means something else to users of SQLite."""
    if os.fspath(given) == IN_MEMORY:
        raise DatabaseError(
            "database ':memory:': every call that opens it would get an empty database of its own; "
            "`sl.open_database()` makes one in memory, to be passed on; without database=, `tune` "
            "keeps its records in memory"
        )
    check_no_uri(given)


def check_no_uri(given: str | os.PathLike[str]) -> None:
    """DatabaseError for one of SQLite's URIs."""
    text = os.fspath(given)
    if text.startswith("file:"):
        raise DatabaseError(f"database {text!r}: it is a URI; give the path of a file")


def check_place(path: Path, read_only: bool) -> None:
    """DatabaseError unless a database file is at ``path``, or can be made there."""
    kind = _kind(path, path)
    if kind == stat.S_IFDIR:
        raise DatabaseError(f"database {path}: it is a folder; give the path of a file in it")
    if kind not in (None, stat.S_IFREG):
        raise DatabaseError(
            f"database {path}: it is {_KINDS.get(kind, 'no file')}; give the path of a file"
        )
    _check_working_directory(path)
    if (above := _kind(path.parent, path)) != stat.S_IFDIR:
        what = "does not exist; make it first" if above is None else "is no folder; move it away"
        raise DatabaseError(
            f"database {path}: the folder {path.parent} {what}, or choose another path"
        )
    if read_only and kind is None:
        raise DatabaseError(
            f"database {path}: there is no such file to read; open it without read_only to make it"
        )
    for suffix in BESIDE:
        place = beside(path, suffix)
        if (kind := _kind(place, path)) not in (None, stat.S_IFREG):
            raise DatabaseError(
                f"database {path}: {place.name} beside it is {_KINDS.get(kind, 'no file')}, and "
                "SQLite needs a file there; move it away, or choose another path"
            )


def beside(path: Path, suffix: str) -> Path:
    """Return where SQLite keeps a file that belongs to a database: beside what a link leads to."""
    return Path(os.path.realpath(path) + suffix)


def named(path: Path | None) -> str:
    """Return what messages call the database at a path; None is that of one in memory."""
    return "the in-memory database" if path is None else f"database {path}"


def shown(path: Path) -> str:
    """Return a path as text for a message; the middle of a long one is left out."""
    text = str(path)
    if not text.isprintable():
        text = repr(text)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]}...{text[-_SHOWN // 2 :]}"


def _kind(place: Path, path: Path) -> int | None:
    """Return what is at a place, as ``stat`` says; None for nothing."""
    try:
        return stat.S_IFMT(os.stat(place).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        remedy = _REFUSALS.get(error.errno or 0, "choose another path")
        reason = f"the system refuses its path ({error.strerror})"
        raise DatabaseError(f"database {shown(path)}: {reason}; {remedy}") from error
    except ValueError as error:
        raise DatabaseError(
            f"database {shown(path)}: its path is no name of a file ({error}); choose another path"
        ) from error


def _check_working_directory(path: Path) -> None:
    try:
        path.absolute()
    except OSError as error:
        raise DatabaseError(
            f"database {path}: the working directory is gone ({error.strerror}); give an absolute "
            "path"
        ) from error


# -- Messages for SQLite's errors: the reason and the remedy --------------------------------------

REASONS = {
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
        "copy what is readable with `sqlite3 FILE .recover`, or restore a backup; a file that was "
        "copied while it was in use needs the -wal file from beside it",
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
    "SQLITE_TOOBIG": ("a text is too long for SQLite", "leave it out, or shorten it"),
    "SQLITE_IOERR": (
        "reading or writing failed",
        "check the disk and its free space; a network folder will not do",
    ),
}


# Number of files that SQLite opens for a database: the file, and what is beside it.
_FILES = 4
# Longest path that most builds of SQLite open, in bytes.
_LONGEST_PATH = 504

# SQLite's messages quote the file, whose damaged content need not be valid text.
SQLITE_ERRORS = (sqlite3.Error, UnicodeError)


def explain(path: Path | None, error: Exception) -> DatabaseError:
    """Return a DatabaseError with path, reason and remedy for one of ``SQLITE_ERRORS``.

    ``path`` is None for a database in memory.
    """
    name = getattr(error, "sqlite_errorname", None) or ""
    if isinstance(error, UnicodeEncodeError):
        return DatabaseError(f"{named(path)}: a text is no valid Unicode ({error}); leave it out")
    if isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        name = "SQLITE_CORRUPT"
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_IOERR")) and _too_many_files():
        return DatabaseError(
            f"{named(path)}: too many files are open ({error}); close some, or raise the limit "
            "(`ulimit -n`)"
        )
    opening = name.startswith("SQLITE_CANTOPEN")
    if path is not None and opening and (length := _length(path)) > _LONGEST_PATH:
        return DatabaseError(
            f"{named(path)}: its path has {length} bytes, and SQLite takes at most "
            f"{_LONGEST_PATH} ({error}); choose a shorter one"
        )
    for known, (reason, remedy) in REASONS.items():
        if name.startswith(known):
            return DatabaseError(f"{named(path)}: {reason} ({error}); {remedy}")
    return DatabaseError(f"{named(path)}: SQLite refused: {error}")


def _length(path: Path) -> int:
    return len(os.fsencode(os.path.realpath(path)))


def _too_many_files() -> bool:
    """Whether this process can open fewer files than SQLite needs; SQLite does not tell."""
    opened: list[int] = []
    try:
        while len(opened) < _FILES:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return False


# -- The tables of the SQLite file, and how older files become newer ones -------------------------

# Stands in the file's header, so that another program's SQLite file is recognised.
APPLICATION_ID = 0x5343484C
FROZEN_ID = 0x53434846
"""The same of a file that holds winners only, and can only be read."""

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
    # What records were measured with is stored once for all records that share it.
    """
    CREATE TABLE provenance (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
    ALTER TABLE record ADD COLUMN program_key TEXT NOT NULL DEFAULT '';
    ALTER TABLE record ADD COLUMN provenance_id INTEGER REFERENCES provenance;
    ALTER TABLE record ADD COLUMN run_id INTEGER;
    ALTER TABLE record ADD COLUMN proposal INTEGER;
    CREATE INDEX record_by_program ON record (workload_key, program_key);
    CREATE INDEX record_by_run ON record (run_id) WHERE run_id IS NOT NULL;
    ALTER TABLE workload ADD COLUMN exact_key TEXT NOT NULL DEFAULT '';
    ALTER TABLE workload ADD COLUMN family_key TEXT NOT NULL DEFAULT '';
    CREATE INDEX workload_by_exact_key ON workload (exact_key);
    CREATE INDEX workload_by_family_key ON workload (family_key);
    CREATE TABLE run (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        identity TEXT NOT NULL,
        workload_key TEXT NOT NULL,
        target_key TEXT NOT NULL,
        toolchain_key TEXT NOT NULL,
        search TEXT NOT NULL,
        seed TEXT NOT NULL,
        created REAL NOT NULL,
        known INTEGER NOT NULL,
        owner TEXT NOT NULL,
        state TEXT NOT NULL,
        state_asks INTEGER NOT NULL,
        outcome TEXT NOT NULL
    );
    CREATE INDEX run_by_identity ON run (identity);
    CREATE TABLE ask (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        run_id INTEGER NOT NULL REFERENCES run,
        size INTEGER NOT NULL,
        seconds REAL NOT NULL
    );
    CREATE INDEX ask_by_run ON ask (run_id);
    """,
    # How records did in finals; `held` is the same for those that were timed against each other.
    """
    CREATE TABLE final (
        id INTEGER PRIMARY KEY,
        record_id INTEGER NOT NULL REFERENCES record,
        held REAL NOT NULL,
        place INTEGER NOT NULL,
        status TEXT NOT NULL,
        samples TEXT NOT NULL
    );
    CREATE INDEX final_by_record ON final (record_id);
    """,
    # The programs that runs are measuring. A claim is void when its run has no living owner.
    """
    CREATE TABLE claim (
        program_key TEXT NOT NULL,
        run_id INTEGER NOT NULL REFERENCES run,
        PRIMARY KEY (program_key, run_id)
    ) WITHOUT ROWID;
    """,
    # Programs that differ in their shapes share a kin key.
    """
    ALTER TABLE workload ADD COLUMN kin_key TEXT NOT NULL DEFAULT '';
    CREATE INDEX workload_by_kin_key ON workload (kin_key);
    """,
    # What runs keep besides their records; the phases of a trial and the tags are JSON lists.
    """
    ALTER TABLE run ADD COLUMN notes TEXT NOT NULL DEFAULT '';
    ALTER TABLE run ADD COLUMN tags TEXT NOT NULL DEFAULT '[]';
    CREATE TABLE trial (
        record_id INTEGER PRIMARY KEY REFERENCES record,
        worker INTEGER NOT NULL,
        phases TEXT NOT NULL
    );
    CREATE TABLE phase (
        run_id INTEGER NOT NULL REFERENCES run,
        activity TEXT NOT NULL,
        began REAL NOT NULL,
        ended REAL NOT NULL,
        worker INTEGER,
        PRIMARY KEY (run_id, began, activity)
    ) WITHOUT ROWID;
    CREATE TABLE rejection (
        run_id INTEGER NOT NULL REFERENCES run,
        module TEXT NOT NULL,
        instruction TEXT NOT NULL,
        block TEXT NOT NULL,
        reason TEXT NOT NULL,
        count INTEGER NOT NULL,
        message TEXT NOT NULL,
        PRIMARY KEY (run_id, module, instruction, block, reason)
    ) WITHOUT ROWID;
    """,
    # What other work did to samples: a JSON list, or nothing where it is unknown.
    """
    ALTER TABLE record ADD COLUMN disturbance TEXT NOT NULL DEFAULT '';
    """,
)
SCHEMA = len(MIGRATIONS)
# Files of this schema and of newer ones can be read as they are.
READABLE = 2
# The first one that has the table `final`.
WITH_FINALS = 3
# The first one that has the column `kin_key`.
WITH_KIN = 5
# The first one that has notes and details of runs.
WITH_DETAILS = 6
# The first one that tells how far samples were disturbed.
WITH_DISTURBANCE = 7
