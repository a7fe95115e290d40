"""Frozen databases: files of winners that are final."""

from __future__ import annotations

from pathlib import Path

from schedlang.database.sqlite.place import beside
from schedlang.database.sqlite.schema import FROZEN_ID
from schedlang.errors import DatabaseError

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
