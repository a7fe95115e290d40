"""How values look: in a notebook's cell, in a message; who writes reports; numbers, units."""

from __future__ import annotations

import datetime
import difflib
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

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
    ``schedlang/report/``. ``import schedlang`` registers who imports that, at the first value.
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


# -- Times: in pages with four digits, in terminals in ASCII with three ---------------------------

_MICRO, _SPACE = "\N{MICRO SIGN}", "\N{NO-BREAK SPACE}"
_ASCII = str.maketrans(
    {_SPACE: " ", "\N{EN DASH}": "-", "\N{MULTIPLICATION SIGN}": "x", _MICRO: "u"}
)


class Unit(NamedTuple):
    """A unit of time: its name, and how many of it make a second."""

    name: str
    scale: float


_UNITS = (Unit("s", 1.0), Unit("ms", 1e3), Unit(f"{_MICRO}s", 1e6))


def latency_unit(latencies: Iterable[float]) -> Unit:
    """Return the unit in which the shortest of some latencies, in seconds, is 1 or more."""
    shortest = min(latencies, default=1.0)
    return next(unit for unit in _UNITS if shortest * unit.scale >= 1 or unit is _UNITS[-1])


def duration_unit(seconds: float) -> Unit:
    """Return the unit for an axis of so many wall seconds."""
    if seconds <= 180:
        return Unit("s", 1.0)
    return Unit("min", 1 / 60) if seconds <= 3 * 3600 else Unit("h", 1 / 3600)


def latency_text(seconds: float) -> str:
    """Return a latency for a page: ``36.1 µs``; a dash where it is not known."""
    if not math.isfinite(seconds) or seconds <= 0:
        return "\N{EN DASH}"
    unit = latency_unit([seconds])
    return f"{number_text(seconds * unit.scale)}{_SPACE}{unit.name}"


def interval_text(low: float, high: float, write: Callable[[float], str] = latency_text) -> str:
    """Return both ends of an interval: ``36.1 µs to 37 µs``."""
    return f"{write(low)} to {write(high)}"


# No machine does more operations per second: such a number is no count of operations, or no time.
_MOST_GFLOPS = 1e7


def describe_latency(seconds: float, flops: float = 0.0) -> str:
    """Return a latency with its unit, and the rate where the number of operations is given.

    ``1.25 ms, 214.7 GFLOPS``. There is no rate without operations, as of a copy, and none that
    no machine reaches.
    """
    text = _with_unit(seconds)
    rate = flops / seconds / 1e9 if seconds > 0 else 0.0
    if not 0 < rate <= _MOST_GFLOPS:
        return text
    return f"{text}, {rate:.1f} GFLOPS" if rate >= 1 else f"{text}, {rate:.2g} GFLOPS"


def _with_unit(seconds: float) -> str:
    """Return the latency to three digits, in the largest unit that leaves 1 or more."""
    for unit in _UNITS:
        rounded = float(f"{seconds * unit.scale:.3g}")
        if rounded >= 1:
            break
    # Above 1000 three digits would be written with an exponent.
    number = f"{seconds * unit.scale:.0f}" if rounded >= 1000 else f"{rounded:.3g}"
    return f"{number} {for_terminals(unit.name)}"


def describe_speedup(ratio: float) -> str:
    """Return how much faster a program is, as text: ``1.04x faster``, ``212x faster``."""
    digits = 2 if ratio < 2 else 1 if ratio < 100 else 0
    return f"{ratio:.{digits}f}x faster"


def duration_text(seconds: float) -> str:
    """Return wall seconds for a page: ``0.42 s``, ``12.3 s``, ``5 min 12 s``, ``1 h 10 min``."""
    if not math.isfinite(seconds):
        return "\N{EN DASH}"
    if seconds < 59.95:
        return f"{number_text(seconds, 3)}{_SPACE}s"
    return re.sub(r"(?<=\d) ", _SPACE, duration(seconds))


def duration(seconds: float) -> str:
    """Return seconds as people say them: ``8 s``, ``2 min 5 s``, ``1 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def moment_text(moment: float) -> str:
    """Return a moment in seconds since 1970 as date and time, UTC."""
    try:
        found = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return "\N{EN DASH}"
    return found.strftime("%Y-%m-%d %H:%M UTC")


# -- Numbers ---------------------------------------------------------------------------------------


def number_text(value: float, digits: int = 4) -> str:
    """Return a number with significant digits, and commas between thousands."""
    if not math.isfinite(value):
        return "\N{EN DASH}"
    if value == 0:
        return "0"
    places = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def speedup_text(ratio: float) -> str:
    """Return a ratio of latencies: ``59.5×``."""
    return f"{number_text(ratio, 3)}\N{MULTIPLICATION SIGN}"


def ratio_text(ratio: float) -> str:
    """Return a ratio that may be near 1: ``1.047×``."""
    return f"{number_text(ratio)}\N{MULTIPLICATION SIGN}"


def percent_text(part: float, digits: int = 0) -> str:
    """Return a part as a percentage; a part that is too small for its digits says so."""
    smallest = 10.0 ** -(digits + 2)
    if 0 < abs(part) < smallest / 2:
        return f"<\N{NO-BREAK SPACE}{smallest:.{digits}%}"
    return f"{part:.{digits}%}"


def p_text(p_value: float) -> str:
    """Return a p-value: ``p = 0.031``, ``p < 0.0001``."""
    return "p < 0.0001" if p_value < 1e-4 else f"p = {p_value:.2g}"


def for_terminals(text: str) -> str:
    """Return a text of this file in ASCII, for the command line and for JSON."""
    return text.translate(_ASCII)


def significant(value: float, digits: int = 6) -> float:
    """Return a number rounded to significant digits: shorter to store, and as good to look at."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else value
