"""Lines of a file that may be damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from schedlang.errors import DatabaseError

# In bytes; a workload of a large model has a few megabytes.
MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a file.

    Attributes
    ----------
    number: of the line, from 1.
    text: the line; ``None`` when it is too long or not UTF-8.
    ended: it ends with a line break, so it was written completely.
    """

    number: int
    text: str | None
    ended: bool


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines that are not empty; raise ``DatabaseError`` when the file cannot be read."""
    try:
        with path.open("rb") as file:
            number = 0
            while content := file.readline(MOST_BYTES):
                number += 1
                too_long = not content.endswith(b"\n") and len(content) == MOST_BYTES
                rest = content
                while too_long and rest and not rest.endswith(b"\n"):
                    rest = file.readline(MOST_BYTES)
                ended = rest.endswith(b"\n")
                if too_long or content.strip():
                    yield Line(number, None if too_long else _decoded(content), ended)
    except OSError as error:
        raise DatabaseError(
            f"{path}: {error.strerror}; give the folder of a MetaSchedule database, or its files"
        ) from error


def _decoded(content: bytes) -> str | None:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return None


def written(path: Path) -> float:
    """Return when a file was last written, in seconds since 1970 (UTC)."""
    return os.stat(path).st_mtime
