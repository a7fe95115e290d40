"""Notice a file that came without its journal, the ``-wal`` file beside it.

The journal holds what was written last. It lies beside the file while a process has the file open,
and stays there when the process is killed; the last one to close the file empties it. A file that
is copied meanwhile without its journal is a sound database, of an earlier state. What gives it
away is a run that is still in progress in it: the claim of a run is written through to the file
itself (``SQLiteConnection.writing``), and is taken back when the run ends. What is stored outside
of runs is written through as well, so that only a run leaves anything in the journal.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from schedlang.database.owner import is_alive
from schedlang.database.sqlite.errors import SQLITE_ERRORS
from schedlang.database.sqlite.place import beside

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
