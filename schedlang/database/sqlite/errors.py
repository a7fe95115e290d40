"""Messages for SQLite's errors: the reason and the remedy."""

from __future__ import annotations

import sqlite3
from pathlib import Path

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
    "SQLITE_IOERR": ("reading or writing failed", "check the disk; a network folder will not do"),
}


# SQLite's messages quote the file, whose damaged content need not be valid text.
SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


def explain(path: Path, error: Exception) -> DatabaseError:
    """Return a DatabaseError with path, reason and remedy for one of ``SQLITE_ERRORS``."""
    name = getattr(error, "sqlite_errorname", None) or ""
    if isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        name = "SQLITE_CORRUPT"
    for known, (reason, remedy) in REASONS.items():
        if name.startswith(known):
            return DatabaseError(f"database {path}: {reason} ({error}); {remedy}")
    return DatabaseError(f"database {path}: SQLite refused: {error}")
