"""Messages for SQLite's errors: the reason and the remedy."""

from __future__ import annotations

import errno
import os
import sqlite3
from pathlib import Path

from schedlang.database.sqlite.place import named
from schedlang.errors import DatabaseError

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
