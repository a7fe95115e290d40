"""Whether a database file can be at a path, and what SQLite's errors mean."""

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
