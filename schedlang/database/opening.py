"""Opening a database: one that is given, a file, or one in memory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from schedlang.database.database import Database
from schedlang.database.place import check_name
from schedlang.errors import DatabaseError


def open_database(
    where: Database | str | os.PathLike[str] | None = None, *, read_only: bool = False
) -> Database:
    """Open the database at a path, or return one that is given; None makes one in memory.

    Raises ``DatabaseError`` when the file cannot be opened, ``TypeError`` for anything else.
    """
    if isinstance(where, Database):
        return where
    if where is None:
        return Database()
    if isinstance(where, str | os.PathLike):
        check_name(where)
        return Database(where, read_only=read_only)
    raise TypeError(f"a database is a path, a Database or None, not a {type(where).__name__}")


@contextmanager
def opened_database(
    where: Database | str | os.PathLike[str] | None, *, read_only: bool = False
) -> Iterator[Database]:
    """Open a database for a ``with`` as ``open_database`` does; one that is given stays open."""
    database = open_database(where, read_only=read_only)
    try:
        yield database
    finally:
        if database is not where:
            database.close()


def opened_for_reading(
    database: Database | str | os.PathLike[str] | None, stack: ExitStack
) -> Database:
    """Return a database; a file is open until ``stack`` closes. DatabaseError without a file."""
    if isinstance(database, Database):
        return database
    if database is None:
        raise DatabaseError("give the database to look in: a path or a Database")
    if isinstance(database, str | os.PathLike) and not os.path.exists(database):
        raise DatabaseError(
            f"database {os.fspath(database)}: there is no such file to read; tune(..., "
            f"database={os.fspath(database)!r}) makes it and puts its records there"
        )
    return stack.enter_context(open_database(database, read_only=True))
