"""How values look: in a notebook's cell, in part of a message; and who writes reports of them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

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


ReportWriter = Callable[..., Path]
"""``(history, path, *, title=None)`` writes the report of a run, an HTML file; returns its path."""

_registered: dict[str, HtmlWriter] = {}
_reports: dict[str, ReportWriter] = {}


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


def register_report_writer(writer: ReportWriter) -> ReportWriter:
    """Have ``TuneResult.report`` call ``writer``; the last one that is registered counts."""
    _reports["writer"] = writer
    return writer


def report_writer() -> ReportWriter:
    """Return the registered writer; ``import schedlang`` registers ``schedlang.report.write``."""
    return _reports["writer"]


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
