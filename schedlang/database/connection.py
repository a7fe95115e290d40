"""One connection to an SQLite database: statements, transactions, readable errors, long texts."""

from __future__ import annotations

import sqlite3
import threading
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from schedlang.database.file import connect, connect_memory
from schedlang.database.place import SQLITE_ERRORS, explain, named
from schedlang.database.run import LONGEST_STATE
from schedlang.errors import DatabaseError

T = TypeVar("T")

AMONG = "IN (SELECT value FROM json_each(?))"
"""SQL for a column that has one of the values of a JSON list, of any length."""

_REMEDIES = {
    "record": "`delete([id])` removes the record",
    "run": "`delete_run(id)` makes `tune` begin it again",
    "program": "restore a backup, or `merge` what can be read into a new one",
}


class SQLiteConnection:
    """Threads may share it; each method raises ``DatabaseError`` when SQLite does."""

    def __init__(self, path: Path | None, *, read_only: bool, busy_seconds: float) -> None:
        self.path = path
        self.read_only = read_only
        self.name = named(path)
        self._lock = threading.RLock()
        self._depth = 0
        self._write_through = False
        self._connection: sqlite3.Connection | None
        if path is not None:
            self._connection = connect(path, read_only=read_only, busy_seconds=busy_seconds)
        else:
            self._connection = connect_memory()
            # Python warns of connections that nobody closed; here there is nothing to lose.
            weakref.finalize(self, self._connection.close)

    def pack(self, text: str, *, replaced: bool = False) -> str | bytes:
        """Return what to store for a long text: compressed in a file, as it is in memory.

        One that will be ``replaced`` soon is compressed in less time.
        """
        return text if self.path is None else pack(text, replaced=replaced)

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[Any]:
        """Return all rows of a query."""
        with self._lock, self._explained() as connection:
            return connection.execute(sql, values).fetchall()

    def read(
        self,
        make: Callable[[Sequence[Any]], T],
        what: str,
        sql: str,
        values: Sequence[object] = (),
    ) -> list[T]:
        """Return what ``make`` makes of each row of a query, whose last column is an id.

        ``what`` names the thing that a row describes, for the message where that fails.
        """
        rows = self.rows(sql, values)
        number = None
        try:
            made = []
            for row in rows:
                number = row[-1]
                made.append(make(row))
            return made
        except (ValueError, TypeError, OverflowError, RecursionError) as error:
            raise DatabaseError(
                f"{self.name}: {what} {number} cannot be read ({error}); upgrade "
                f"schedlang if a newer one wrote it; if the file is damaged, {_REMEDIES[what]}"
            ) from error

    def execute(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Run a statement that changes something; call it inside ``writing``."""
        with self._lock, self._explained() as connection:
            return connection.execute(sql, values)

    @contextmanager
    def writing(self, *, through: bool = False) -> Iterator[None]:
        """Open a transaction; commit it at the end, undo it after an error.

        A transaction inside another one is part of it, and can be undone alone. With ``through``,
        the file itself has it after the commit, besides the journal beside it, as far as readers
        allow.
        """
        if self.read_only:
            raise DatabaseError(f"{self.name}: it was opened with read_only=True; open it without")
        with self._lock:
            inner = self._depth > 0
            if inner and not self._in_transaction:
                raise DatabaseError(
                    f"{self.name}: an error before ended this transaction, and nothing "
                    "of it is stored; begin it again"
                )
            # Names of their own: a part that failed goes back to where it began itself.
            part = f"part{self._depth}"
            self._write_through |= through
            self._depth += 1
            try:
                # Inside: Ctrl-C may come just when it has begun.
                self.execute(f"SAVEPOINT {part}" if inner else "BEGIN IMMEDIATE")
                yield
                self.execute(f"RELEASE {part}" if inner else "COMMIT")
            except BaseException:
                # After a full disk SQLite may have gone back by itself.
                if self._in_transaction:
                    with suppress(DatabaseError):  # interrupted before there was a part
                        self.execute(f"ROLLBACK TO {part}" if inner else "ROLLBACK")
                        if inner:
                            self.execute(f"RELEASE {part}")
                raise
            finally:
                self._depth -= 1
            if not inner and self._write_through and self.path is not None:
                self._write_through = False
                with suppress(DatabaseError):  # the journal has it
                    self.rows("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """Close it; safe to call twice."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    @property
    def _in_transaction(self) -> bool:
        return self._connection is not None and self._connection.in_transaction

    @contextmanager
    def _explained(self) -> Iterator[sqlite3.Connection]:
        if self._connection is None:
            again = "a new one" if self.path is None else "it again"
            raise DatabaseError(f"{self.name}: it is closed; open {again}")
        try:
            yield self._connection
        except SQLITE_ERRORS as error:
            raise explain(self.path, error) from error
        except OverflowError as error:
            raise DatabaseError(
                f"{self.name}: a number is beyond 64 bits ({error}); give a smaller one"
            ) from error


# -- Long texts as SQLite stores them: compressed, and with a checksum ----------------------------

# Shorter ones are stored as they are.
_SHORT = 256
_LEAST_WINDOW = 9
# Of zlib: traces get a tenth longer than with the usual level, in two thirds of the time. What is
# written often, and replaced, is packed faster still.
_LEVEL, _FAST = 3, 1
# A few bytes can expand to any length: longer texts are refused.
MAX_BYTES = LONGEST_STATE


def pack(text: str, *, replaced: bool = False) -> str | bytes:
    """Return what to store for a text; a trace gets about 5 times shorter.

    One that will be ``replaced`` soon, such as the state of a search, gets less short.
    """
    if len(text) < _SHORT:
        return text
    content = text.encode("utf-8")
    # A window beyond the text costs as long as compressing a trace does.
    window = min(max(len(content).bit_length(), _LEAST_WINDOW), zlib.MAX_WBITS)
    level = _FAST if replaced else _LEVEL
    writer = zlib.compressobj(level, wbits=window)
    return writer.compress(content) + writer.flush()


def unpack(stored: str | bytes) -> str:
    """Return the text of what ``pack`` returned; older files hold the text itself.

    ValueError where a byte has changed, or the text is too long.
    """
    if isinstance(stored, str):
        return stored
    reader = zlib.decompressobj()
    try:
        content = reader.decompress(stored, MAX_BYTES)
    except zlib.error as error:
        raise ValueError(f"a compressed text is damaged: {error}") from None
    if not reader.eof:
        raise ValueError("a compressed text is cut off, or too long")
    return content.decode("utf-8")
