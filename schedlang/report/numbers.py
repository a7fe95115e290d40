"""Numbers as people read them in a report."""

from __future__ import annotations

import datetime
import math

_MICRO = "\N{MICRO SIGN}"
_ASCII = str.maketrans(
    {"\N{NO-BREAK SPACE}": " ", "\N{EN DASH}": "-", "\N{MULTIPLICATION SIGN}": "x", _MICRO: "u"}
)


def latency_text(seconds: float) -> str:
    """Return a latency: ``36.1 µs``; a dash where it is not known."""
    if not math.isfinite(seconds) or seconds <= 0:
        return "\N{EN DASH}"
    for unit, scale in (("s", 1.0), ("ms", 1e3), (f"{_MICRO}s", 1e6)):
        if seconds * scale >= 1 or scale == 1e6:
            return f"{number_text(seconds * scale)}\N{NO-BREAK SPACE}{unit}"
    raise AssertionError


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


def duration_text(seconds: float) -> str:
    """Return wall seconds: ``0.42 s``, ``12.3 s``, ``5 min 12 s``, ``1 h 10 min``."""
    space = "\N{NO-BREAK SPACE}"
    if not math.isfinite(seconds):
        return "\N{EN DASH}"
    if seconds < 59.95:
        return f"{number_text(seconds, 3)}{space}s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60}{space}min {whole % 60}{space}s"
    return f"{whole // 3600}{space}h {whole % 3600 // 60}{space}min"


def moment_text(moment: float) -> str:
    """Return a moment in seconds since 1970 as date and time, UTC."""
    try:
        found = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    except (ValueError, OverflowError, OSError):
        return "\N{EN DASH}"
    return found.strftime("%Y-%m-%d %H:%M UTC")
