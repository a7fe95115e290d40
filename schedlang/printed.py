"""How values look in a notebook's cell and in a message, and how long steps are announced."""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import logging
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

# -- How values look: as the last line of a notebook's cell, in part of a message, and in tables.

_GAP = "  "
# Unicode's categories: control and format characters, lone surrogates, separators of lines.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})

HtmlWriter = Callable[[str, object], str | None]
"""Returns a value of a kind as HTML, or None to have its text shown."""


def show_text(value: object, printer: Any, cycle: bool) -> None:
    """Write what ``print`` shows; a class takes it as its ``_repr_pretty_``, for IPython.

    IPython looks for the method in the class that has a ``__repr__``, so inheriting it from a base
    is not enough for a dataclass. ``printer`` is IPython's, ``cycle`` whether a value holds itself.
    """
    for place, line in enumerate(str(value).splitlines()):
        if place:
            printer.break_()
        printer.text(line)


_registered: dict[str, HtmlWriter] = {}


def register_html_writer(writer: HtmlWriter) -> HtmlWriter:
    """Have ``writer`` show values in notebooks; the last one that is registered counts."""
    _registered["writer"] = writer
    return writer


def html_method(kind: str) -> Callable[[object], str | None]:
    """Return a ``_repr_html_``, which notebooks show as the last line of a cell.

    The classes stand below what shows them, so they name it by its ``kind``: a file of
    ``schedlang/notebook/``. ``import schedlang`` registers who imports that, at the first value.
    """

    def show_html(value: object) -> str | None:
        return _registered["writer"](kind, value)

    return show_html


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Return a number of things: ``1 trial``, ``1,000 trials``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def listed(items: Iterable[object], *, most: int = 5, lines: bool = True) -> str:
    """Return the first of many things, and how many more there are, to end a message with.

    Several stand on lines of their own, one in the line that the message begins; all of them in one
    line unless ``lines``.
    """
    named = [str(item) for item in items]
    shown = named[:most]
    if len(named) > most:
        shown.append(f"and {len(named) - most} more")
    if not lines:
        return "; ".join(shown)
    return shown[0] if len(shown) == 1 else "".join(f"\n  {line}" for line in shown)


def first_line(said: object) -> str:
    """Return the first line of a text, or of an error's message; without one, the error's type."""
    lines = str(said).strip().splitlines()
    if not lines:
        return type(said).__name__ if isinstance(said, BaseException) else ""
    return lines[0]


def not_among(said: str, word: object, words: Iterable[str]) -> str:
    """Return ``"search='radnom'; did you mean 'random'? known: auto, random"``.

    ``said`` is what comes first; a word that is near none of them has a semicolon.
    """
    known = list(words)
    return f"{said}{nearest(word, known) or ';'} known: {', '.join(known)}"


def nearest(word: object, words: Iterable[str], show: Callable[[str], object] = repr) -> str:
    """Return ``"; did you mean 'matmul'?"`` for the nearest of ``words``; nothing without one.

    ``show`` makes what is shown of it. A word in another case is near, however short it is.
    """
    given, known = str(word), list(words)
    close = difflib.get_close_matches(given, known, n=1)
    close += [other for other in known if other.lower() == given.lower()]
    return f"; did you mean {show(close[0])}?" if close else ""


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


@contextmanager
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
