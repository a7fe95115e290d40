"""Files that are whole or not there: written beside their place, then renamed.

A full disk, a process that is killed, or an error in what is written leaves the earlier file, or
none.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from schedlang.errors import FileError

_REMEDIES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free some space"),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "check the permissions"),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), "make its folder"),
}


def as_path(given: object) -> Path:
    """Return the path that a user gives; raise TypeError for another type."""
    if not isinstance(given, str | os.PathLike):
        raise TypeError(f"a path is text or a pathlib.Path, not {given!r} ({type(given).__name__})")
    return Path(given)


@contextmanager
def replacing(path: str | os.PathLike[str], what: str = "the file") -> Iterator[Path]:
    """Give a path to write to, whose file takes the place of ``path`` when the block ends.

    It has the same name, in a folder of its own beside ``path``, which is removed in any case. A
    device or a pipe is written itself. ``FileError`` replaces an OSError of the block, and says
    that ``what`` cannot be written.
    """
    try:
        place = Path(os.path.realpath(path))
        if place.exists() and not place.is_file():
            yield place
            return
        with tempfile.TemporaryDirectory(prefix=".writing-", dir=place.parent) as folder:
            written = Path(folder) / place.name
            yield written
            with written.open("rb") as file:
                os.fsync(file.fileno())
            os.replace(written, place)
    except FileError:
        raise
    except OSError as error:
        reason = error.strerror or str(error)
        remedy = _REMEDIES.get(error.errno or 0, "check the disk")
        raise FileError(error.errno, reason, os.fspath(path), what, remedy) from error


def write_text(
    path: str | os.PathLike[str], text: str, what: str = "the file", *, errors: str = "strict"
) -> None:
    """Write a text in UTF-8, see ``replacing``; a file that was there keeps its permissions."""
    with replacing(path, what) as written:
        if not written.exists() and os.path.exists(path):
            with open(path, "ab"):  # PermissionError for a file that is read-only
                written.touch()
                shutil.copymode(path, written)
        written.write_text(text, encoding="utf-8", errors=errors, newline="\n")
