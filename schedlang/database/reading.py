"""Open a database that has to be there, to look something up."""

from __future__ import annotations

import os
from contextlib import ExitStack

from schedlang.database.database import Database, open_database
from schedlang.errors import DatabaseError


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
