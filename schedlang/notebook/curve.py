"""How the best latency of a run fell, as a small picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from schedlang.database.trials import Gain
from schedlang.notebook.markup import join
from schedlang.report.numbers import latency_text

_WIDTH, _HEIGHT = 300, 84
_COLUMNS = 150
"""Number of places along the axis: of gains at one place, only the last is drawn."""
_TOP, _BOTTOM = 18, 8
"""Room above the highest and below the lowest point."""

_SHORTEST = 1e-12


def curve(gains: Sequence[Gain], trials: int) -> Markup:
    """Return the best latency so far over trials, on a log scale, as SVG.

    Parameters
    ----------
    gains: trials that were faster than all before them, in order; at least one.
    trials: number of all trials of the run.
    """
    points = _thinned(gains, max(trials, 1))
    begin, end = points[0], points[-1]
    steps = [f"H{x:g}V{y:g}" for x, y in points[1:]]
    way = f"M{begin[0]:g} {begin[1]:g}{''.join(steps)}H{_WIDTH}"
    first, last = gains[0], gains[-1]
    label = (
        f"The best latency fell from {latency_text(first.latency)} at {first.row.name} to "
        f"{latency_text(last.latency)} at {last.row.name}, of {trials:,}."
    )
    shapes = [
        Markup('<path d="{}V{}H{:g}Z" fill="var(--soft)"/>').format(way, _HEIGHT, begin[0]),
        Markup('<path d="M0 {0}H{1}" stroke="var(--edge)"/>').format(_HEIGHT, _WIDTH),
        Markup('<path d="{}" fill="none" stroke="var(--accent)" stroke-width="2"/>').format(way),
        Markup('<circle cx="{:g}" cy="{:g}" r="3.2" fill="var(--accent)"/>').format(*end),
        _text(_WIDTH + 6, end[1] + 4, latency_text(last.latency)),
        _text(0, _HEIGHT + 14, "trial 1"),
        _text(_WIDTH, _HEIGHT + 14, f"{trials:,}", end=True),
    ]
    if len(points) > 1:
        shapes.append(_text(begin[0], begin[1] - 6, latency_text(first.latency)))
    return Markup(
        '<svg role="img" aria-label="{0}" width="{1}" height="{2}" viewBox="0 0 {1} {2}">'
        "<title>{0}</title>{3}</svg>"
    ).format(label, _WIDTH + 66, _HEIGHT + 18, join(shapes))


def _thinned(gains: Sequence[Gain], trials: int) -> list[tuple[float, float]]:
    """Return the places in the picture of the first gain, and of the last in each column."""
    high, low = _logarithm(gains[0]), _logarithm(gains[-1])
    span = (high - low) or 1.0

    def place(gain: Gain) -> tuple[float, float]:
        height = (high - _logarithm(gain)) / span * (_HEIGHT - _TOP - _BOTTOM)
        return round(_column(gain, trials) * _WIDTH / _COLUMNS, 1), round(_TOP + height, 1)

    columns = {_column(gain, trials): gain for gain in gains}
    return [place(gains[0]), *(place(one) for one in columns.values() if one is not gains[0])]


def _column(gain: Gain, trials: int) -> int:
    assert gain.row.number is not None  # it has a latency, so it ran
    return _COLUMNS * (gain.row.number - 1) // max(trials - 1, 1)


def _logarithm(gain: Gain) -> float:
    # A measurer may round short times to 0.
    return math.log(max(gain.latency, _SHORTEST))


def _text(x: float, y: float, text: str, *, end: bool = False) -> Markup:
    anchor = Markup(' text-anchor="end"') if end else ""
    return Markup('<text x="{:g}" y="{:g}"{} opacity=".75">{}</text>').format(x, y, anchor, text)
