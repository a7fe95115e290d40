"""Colours, units and fonts of all charts.

The colours are Okabe and Ito's, which people with any kind of colour vision can tell apart. They
are readable on white and on black.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import altair as alt

BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
PURPLE, SKY, ORANGE, GREY = "#cc79a7", "#56b4e9", "#e69f00", "#8a93a0"
SERIES = (BLUE, VERMILLION, GREEN, PURPLE, SKY, ORANGE)
"""Colours of several runs, or of several reasons."""

WIDTH, HEIGHT = 640, 300
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', sans-serif"
_INK, _GRID = "#3d4654", "#e3e7ec"

Data = alt.Data | dict[str, Any]
Rows = list[dict[str, Any]]
Source = Callable[[str, Callable[[], Rows]], Data]
"""Makes the data of a chart of a name and a function that returns its rows."""

_Chart = TypeVar("_Chart", bound=alt.TopLevelMixin)


def in_order(names: Iterable[str], **options: Any) -> alt.Scale:
    """Return a scale with names in this order.

    ``sort=`` would do the same, and put the names into expressions, which not every text survives.
    """
    return alt.Scale(domain=list(names), **options)


def inline(name: str, rows: Callable[[], Rows]) -> Data:
    """Return rows as the data of a chart that stands alone; ``name`` says what they are."""
    # Not as an object of altair's, whose check against the schema takes seconds for 10,000 rows.
    return {"values": rows()}


def styled(chart: _Chart, title: str = "") -> _Chart:
    """Return a chart with the style of a chart that stands alone."""
    if title:
        chart = chart.properties(title=alt.TitleParams(title, anchor="start", offset=12))
    made: _Chart = chart.configure(
        background="white",
        font=FONT,
        view=alt.ViewConfig(stroke=None),
        title=alt.TitleConfig(fontSize=15, fontWeight=600, color=_INK),
        axis=alt.AxisConfig(
            labelColor=_INK,
            titleColor=_INK,
            titleFontWeight=500,
            titlePadding=8,
            gridColor=_GRID,
            domainColor=GREY,
            tickColor=GREY,
        ),
        legend=alt.LegendConfig(labelColor=_INK, titleColor=_INK, titleFontWeight=500),
        header=alt.HeaderConfig(labelColor=_INK, titleColor=_INK),
    )
    return made
