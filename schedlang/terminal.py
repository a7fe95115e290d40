"""What goes to a terminal and to the log: names, tables, streams, and steps that may take long.

Who only imports schedlang does not load it.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import shutil
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TextIO

_GAP = "  "
# Unicode's categories: control and format characters, lone surrogates, separators of lines.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    """Return a text whose control characters are escapes: a database may hold any name.

    Marks of a direction, other invisible characters and unusual ends of lines are escapes too.
    """
    return "".join(map(_shown, text))


def one_line(text: str) -> str:
    """Return what ``printable`` does, on one line: a name must not look like another line."""
    return " ".join(printable(text).split())


def _shown(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in _INVISIBLE:
        return character
    return character.encode("unicode_escape").decode("ascii")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """Return rows in columns; where they are wider than the terminal, each row is a few lines.

    ``width`` is by default that of the terminal, and endless where the output is none.
    """
    if width is None:
        width = terminal_width()
    rows = [[one_line(cell) for cell in row] for row in rows]
    lines = [head, *rows]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    used = [place for place in range(len(head)) if any(row[place] for row in rows)]
    if not used:
        used = list(range(len(head)))
    if width is not None and sum(widths[place] + len(_GAP) for place in used) - len(_GAP) > width:
        return _stacked(head, rows, used)
    return "\n".join(
        _GAP.join(line[place].ljust(widths[place]) for place in used).rstrip() for line in lines
    )


def terminal_width() -> int | None:
    """Return the width of the terminal in characters; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _stacked(head: Sequence[str], rows: Sequence[Sequence[str]], used: Sequence[int]) -> str:
    first, *others = used
    label = max((len(head[place]) for place in others), default=0)
    lines = []
    for row in rows:
        lines.append(row[first])
        lines += [f"  {head[place].ljust(label)}  {row[place]}" for place in others if row[place]]
    return "\n".join(lines)


@contextlib.contextmanager
def redirected(output: TextIO, place: TextIO) -> Iterator[None]:
    """Send what is written to a file, by C++ too, to another one."""
    try:
        number, other = output.fileno(), place.fileno()
    except (OSError, ValueError):  # closed, or of a test
        yield
        return
    kept = os.dup(number)
    os.dup2(other, number)
    try:
        yield
    finally:
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).fflush(None)  # what C++ wrote is in a buffer of its own
        os.dup2(kept, number)
        os.close(kept)


# -- Steps that may take long: announced in the log, and on a terminal while they last ------------

LOGGER = logging.getLogger("schedlang")
"""Gets each long step, and the lines of every run, with the level INFO; new bests with DEBUG."""


@contextlib.contextmanager
def announced(step: str) -> Iterator[None]:
    """Tell what is done inside ``with``, such as ``"nvcc compiles 2 kernels"``."""
    LOGGER.info("%s", step)
    if not _is_terminal():
        yield
        return
    from rich.console import Console  # most programs announce nothing

    with Console(stderr=True).status(step):
        yield


def _is_terminal() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # it is closed
        return False
