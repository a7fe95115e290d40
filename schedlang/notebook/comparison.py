"""A comparison: the best program of each run, and whether their difference is noise."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from schedlang.notebook.markup import card, clipped, code, folded, line, table
from schedlang.printed import count_text
from schedlang.report.bests import bests_table
from schedlang.report.comparison import Best, Comparison
from schedlang.report.numbers import ratio_text

_MOST, _MOST_SETTINGS, _MOST_SIDES = 10, 12, 4
_WIDTH = 110


def html_of(comparison: Comparison) -> str:
    """Return a row for each run, the fastest first, and the settings that differ."""
    shown = bests_table(comparison)
    title, best, _, ratio, speedup, verified, verdict = range(7)
    ends = _ends(comparison.bests[:_MOST])
    rows: list[tuple[str, ...]] = [
        (
            clipped(cells[title], 60),
            cells[best],
            cells[ratio],
            _interval(one, ends),
            cells[speedup],
            cells[verified],
            cells[verdict],
        )
        for cells, one in zip(shown.rows[:_MOST], comparison.bests, strict=False)
    ]
    columns = (
        *("run", "median", "ratio", "95% interval of the median"),
        *("speed-up", "verified", "verdict"),
    )
    parts = [table(columns, rows, numbers=(1, 2, 4), long=(6,))]
    if (missing := len(comparison.bests) - _MOST) > 0:
        parts.append(line(f"And {count_text(missing, 'more run')}:", code("print(comparison)")))
    if comparison.differences:
        parts.append(_settings(comparison))
    parts.append(
        line(
            code('sl.report.write_comparison(runs, "runs.html")'),
            "shows charts, settings and decisions side by side.",
            kind="foot",
        )
    )
    return card(f"{len(comparison.runs)} runs", comparison.workloads, *parts)


def _settings(comparison: Comparison) -> Markup:
    """Return the settings that differ between the first runs, folded."""
    found = list(comparison.differences.items())
    names = [clipped(name, 40) for name in comparison.runs][:_MOST_SIDES]
    rows = [
        [name, *(clipped(text, 80) for text in texts[:_MOST_SIDES])]
        for name, texts in found[:_MOST_SETTINGS]
    ]
    shown = table(("setting", *names), rows, long=range(1, len(names) + 1))
    if len(found) > _MOST_SETTINGS or len(comparison.runs) > _MOST_SIDES:
        shown += line("The rest:", code("comparison.differences"))
    return folded(count_text(len(found), "setting differs", "settings differ"), shown)


def _ends(bests: Sequence[Best]) -> tuple[float, float]:
    """Return the lowest and the highest end of all intervals."""
    found = [end for one in bests for end in one.ratio_interval or ()]
    return min(found, default=1.0), max(found, default=1.0)


def _interval(best: Best, ends: tuple[float, float]) -> Markup | str:
    """Return the interval of a ratio as a line with its median, and as text."""
    if best.ratio_interval is None or best.ratio is None:
        return ""
    low, high = ends
    scale = (_WIDTH - 8) / ((high - low) or 1.0)
    left, middle, right = (
        round(4 + (value - low) * scale, 1)
        for value in (best.ratio_interval[0], best.ratio, best.ratio_interval[1])
    )
    text = f"{ratio_text(best.ratio_interval[0])} to {ratio_text(best.ratio_interval[1])}"
    return Markup(
        '<svg width="{0}" height="12" viewBox="0 0 {0} 12" aria-hidden="true">'
        '<path d="M{1:g} 6H{3:g}" stroke="var(--accent)" stroke-width="2"/>'
        '<circle cx="{2:g}" cy="6" r="3.5" fill="var(--accent)"/></svg>{4}'
    ).format(_WIDTH, left, middle, right, text)
