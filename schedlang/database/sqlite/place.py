"""Whether a database file can be at a path: checked before SQLite opens it.

Opening a named pipe may never return, and the system's own errors name no remedy.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from schedlang.errors import DatabaseError

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
