"""Two decisions against each other, with the way of the search."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from schedlang.plot.decisions import NO_PAIR, decisions_chart
from schedlang.plot.tables.decisions import (
    Column,
    default_pair,
    label,
    shown_values,
)
from schedlang.report.views.context import Context
from schedlang.report.views.view import Chart, View, spec_of

_READING = (
    "A cell has the lowest latency of the candidates with its two values; an empty cell was not "
    "measured. The line leads through the candidates that were faster than all before them, to "
    "the star, the fastest of the search. Of a decision with several numbers, such as the sizes "
    "of a tile, each number can be chosen by itself."
)


def decisions_view(context: Context) -> View:
    """Return the view; ``more`` has the decisions of all candidates, for the page's script."""
    title = "Two decisions and the search's path"
    pair = default_pair(context.decisions, context.weights)
    varied = [column for column in context.decisions.columns if column.tried >= 2]
    if pair is None or len(varied) < 2 or not context.gains:
        return View("decisions", title, empty=NO_PAIR)
    chart = decisions_chart(
        context.decisions.column(pair[0]),
        context.decisions.column(pair[1]),
        context.history.rows,
        context.unit,
        context.data,
    )
    known = any(weight.importance for weight in context.weights)
    which = "the two decisions that explain most of the differences in latency"
    return View(
        "decisions",
        title,
        f"At first, {which if known else 'two decisions that were varied'}.",
        _READING,
        charts=[Chart("decisions", spec_of(chart), f"Heat map of {pair[0]} and {pair[1]}.")],
        more={"names": [column.name for column in varied], "x": pair[0], "y": pair[1]},
    )


def packed_decisions(context: Context) -> dict[str, Any]:
    """Return the decisions of all candidates for the page's script.

    ``sites`` has a name, a module, the texts of the values and, for each candidate, the number of
    its value, -1 without one. ``axes`` has what a heat map can show: a name, the number of its
    site, the labels in order, and the number of the label for each value of the site.
    """
    sites, axes = [], []
    for place, site in enumerate(context.decisions.sites):
        known: dict[Hashable, int] = {}
        at = [-1 if value is None else known.setdefault(value, len(known)) for value in site.values]
        texts = [label(value) for value in known]
        sites.append({"name": site.name, "module": site.module, "of": texts, "at": at})
        for number, column in enumerate(context.decisions.of_site(site.name), -1):
            if column.tried >= 2:
                axes.append(_axis(column, place, known, number))
    best = {id(gain.row) for gain in context.gains}
    path = [place for place, row in enumerate(context.history.rows) if id(row) in best]
    return {"sites": sites, "axes": axes, "path": path}


def _axis(column: Column, site: int, known: dict[Hashable, int], number: int) -> dict[str, Any]:
    labels, named = shown_values(column)
    places = {text: place for place, text in enumerate(labels)}
    values = [
        value[number] if number >= 0 and isinstance(value, tuple) else value for value in known
    ]
    return {
        "name": column.name,
        "site": site,
        "labels": labels,
        "map": [places[named[value]] for value in values],
    }
