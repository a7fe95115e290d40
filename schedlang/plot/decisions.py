"""Charts of decisions: two against each other, which matter, and why traces were rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from schedlang.database.history import REJECTIONS, RunHistory, TrialRow, gains
from schedlang.plot.convergence import NO_LATENCY, unit_of
from schedlang.plot.finals import names_up
from schedlang.plot.sources import Runs, histories_of, one_run
from schedlang.plot.style import BLUE, GREY, SERIES, WIDTH, Data, Source, in_order, inline, styled
from schedlang.plot.tables import (
    Column,
    Decisions,
    RejectionPlace,
    Weight,
    default_pair,
    read_decisions,
    reasons_of,
    rejection_places,
    shown_values,
    weigh,
)
from schedlang.printed import Unit, significant

# -- Two decisions against each other, with the way that the search took --------------------------

SMALLEST_CELL, LARGEST_CELL, ROOM = 28, 54, 560
"""Bounds of the width and height of a cell, and the width that all cells should take, in pixels."""
LETTER = 7
"""Width of a letter of a label, in pixels: labels stand upright only where they fit a cell."""
NO_PAIR = "fewer than two decisions were varied"
"""Why there is no heat map."""


def decisions(runs: Runs, x: str | None = None, y: str | None = None) -> alt.LayerChart:
    """Return a heat map of two decisions, with the way that the search took.

    A cell has the lowest latency of the candidates with its two values; an empty one was not
    measured. The line leads through the candidates that were faster than all before them.

    Parameters
    ----------
    runs: one run, see ``convergence``.
    x, y: sites of draws or choices, as ``result.best.trace.decisions`` names them, or one number of
        a decision of several: ``"tile:C[1]"``. By default the two that explain most.

    ValueError for several runs, for a name of no decision, and where fewer than two decisions were
    varied or no candidate has a latency.
    """
    name, history = one_run("decisions", runs)
    found = read_decisions(history.records)
    pair = pair_of(found, history, x, y)
    if pair is None:
        raise ValueError(f"{name}: {NO_PAIR}")
    columns = (found.column(pair[0]), found.column(pair[1]))
    rows = history.rows
    if not gains(rows):
        raise ValueError(f"{name}: {NO_LATENCY}")
    unit = unit_of({name: rows})
    chart = decisions_chart(*columns, rows, unit, inline)
    return styled(chart, f"Two decisions: {name}")


def pair_of(
    found: Decisions, history: RunHistory, x: str | None, y: str | None
) -> tuple[str, str] | None:
    """Return the names of two decisions: those given, or those that explain most."""
    if x is not None and y is not None:
        return x, y
    pair = default_pair(found, weigh(found, history.records))
    if x is None and y is None or pair is None:
        return pair
    given = x if x is not None else y
    other = next(name for name in pair if name != given)
    return (str(given), other) if x is not None else (other, str(given))


def decisions_chart(
    x: Column, y: Column, rows: Sequence[TrialRow], unit: Unit, source: Source
) -> alt.LayerChart:
    """Return the chart without its style."""
    across, names_across = shown_values(x)
    up, names_up = shown_values(y)
    cells, path = [], []
    taken = {
        place: (names_across[one], names_up[other])
        for place, (one, other) in enumerate(zip(x.values, y.values, strict=True))
        if one is not None and other is not None
    }
    for place, row in enumerate(rows):
        if place in taken and row.latency is not None:
            latency = significant(row.latency * unit.scale)
            cells.append({"x": taken[place][0], "y": taken[place][1], "latency": latency})
    places = {id(row): place for place, row in enumerate(rows)}
    for step, gain in enumerate(gains(rows), 1):
        if (place := places[id(gain.row)]) in taken:
            path.append(
                {
                    "x": taken[place][0],
                    "y": taken[place][1],
                    "step": step,
                    "trial": gain.row.number,
                    "latency": significant(gain.latency * unit.scale),
                }
            )
    return heat_map(
        x.name,
        y.name,
        unit,
        source("cells", lambda: cells),
        source("path", lambda: path),
        across,
        up,
    )


def heat_map(
    x: str,
    y: str,
    unit: Unit,
    cells: Data,
    path: Data,
    across: Sequence[str],
    up: Sequence[str],
) -> alt.LayerChart:
    """Return a heat map of cells; ``across`` and ``up`` are the values in order."""
    cell = max(SMALLEST_CELL, min(LARGEST_CELL, ROOM // max(len(across), len(up), 1)))
    longest = max(map(len, across), default=0)
    angle = 0 if longest * LETTER <= cell else -45
    where: dict[str, Any] = {
        "x": alt.X(
            "x:N",
            title=x,
            sort=None,
            scale=alt.Scale(domain=list(across), paddingInner=0.04),
            axis=alt.Axis(labelAngle=angle, labelLimit=110, grid=False),
        ),
        "y": alt.Y(
            "y:N",
            title=y,
            sort=None,
            scale=alt.Scale(domain=list(up)[::-1], paddingInner=0.04),
            axis=alt.Axis(labelLimit=140, grid=False),
        ),
    }
    squares = (
        alt.Chart(cells)
        .transform_aggregate(
            best="min(latency)", median="median(latency)", n="count()", groupby=["x", "y"]
        )
        .mark_rect(cornerRadius=2)
        .encode(
            **where,
            color=alt.Color(
                "best:Q",
                title=f"Best in the search ({unit.name})",
                scale=alt.Scale(type="log", scheme="viridis", reverse=True, nice=False),
                legend=alt.Legend(format=",.3~r", tickCount=4, gradientLength=160, orient="right"),
            ),
            tooltip=[
                alt.Tooltip("x:N", title="Across"),
                alt.Tooltip("y:N", title="Up"),
                alt.Tooltip("best:Q", title=f"Best ({unit.name})", format=",.4~r"),
                alt.Tooltip("median:Q", title=f"Median ({unit.name})", format=",.4~r"),
                alt.Tooltip("n:Q", title="Candidates"),
            ],
        )
    )
    line = alt.Chart(path).encode(**where)
    tips = [
        alt.Tooltip("trial:Q", title="New best at trial"),
        alt.Tooltip("latency:Q", title=f"Latency ({unit.name})", format=",.4~r"),
    ]
    step = alt.Order("step:Q")
    halo = line.mark_line(color="black", strokeWidth=4, opacity=0.55, strokeJoin="round")
    core = line.mark_line(color="white", strokeWidth=1.8, strokeJoin="round")
    points = line.mark_point(
        filled=True, size=60, color="white", stroke="black", strokeWidth=1, opacity=1
    ).encode(tooltip=tips)
    last = (
        line.transform_joinaggregate(last="max(step)")
        .transform_filter("datum.step == datum.last")
        .mark_point(shape=_STAR, filled=True, size=150, color="white", stroke="black", opacity=1)
        .encode(tooltip=tips)
    )
    chart = alt.LayerChart(
        layer=[squares, halo.encode(order=step), core.encode(order=step), points, last]
    )
    return chart.properties(width=alt.Step(cell), height=alt.Step(cell))


# A star with five points around the origin, in a square of side 2.
_STAR = (
    "M0,-1L0.29,-0.4L0.95,-0.31L0.48,0.15L0.59,0.81L0,0.5L-0.59,0.81L-0.48,0.15L-0.95,-0.31"
    "L-0.29,-0.4Z"
)


# -- Which decisions have to do with latency, and how surely --------------------------------------

MOST_SITES = 15
"""Number of decisions that the chart shows, the most important first."""
LIKELY = 0.05
"""A decision with a p-value up to this has to do with latency by more than chance."""


def importance(runs: Runs, *, sites: int = MOST_SITES) -> alt.LayerChart:
    """Return a chart of how much of the differences in latency each decision explains by itself.

    A bar is the range in 9 of 10 random halves of the candidates. Decisions that may have to do
    with latency by chance only (p > 0.05) are grey.

    Parameters
    ----------
    runs: one or several, see ``convergence``.
    sites: number of decisions; the most important are shown.

    ValueError where too little was measured, and for fewer than one of ``sites``.
    """
    if type(sites) is not int or sites < 1:
        raise ValueError(f"sites={sites!r}; give a whole number, 1 or more")
    histories = histories_of(runs)
    weights = {
        name: weigh(read_decisions(history.records), history.records)
        for name, history in histories.items()
    }
    if not any(weight.importance for of_one in weights.values() for weight in of_one):
        raise ValueError(f"{', '.join(histories)}: {TOO_FEW}")
    return styled(
        importance_chart(weights, inline, sites),
        "What decisions explain of the differences in latency",
    )


TOO_FEW = "too few candidates have a latency, or all have the same decisions"
"""Why there is no importance."""


def importance_chart(
    weights: Mapping[str, Sequence[Weight]], source: Source, sites: int = MOST_SITES
) -> alt.LayerChart:
    """Return the chart without its style."""
    several = len(weights) > 1
    rows = _rows(weights, sites)
    names = list(dict.fromkeys(row["site"] for row in rows))
    base = alt.Chart(source("importance", lambda: rows)).encode(
        names_up("site", names, 260),
        tooltip=[
            *([alt.Tooltip("run:N", title="Run")] if several else []),
            alt.Tooltip("site:N", title="Decision"),
            alt.Tooltip("module:N", title="Module"),
            alt.Tooltip("tried:Q", title="Values tried"),
            alt.Tooltip("part:Q", title="Explains", format=".1%"),
            alt.Tooltip("low:Q", title="From", format=".1%"),
            alt.Tooltip("high:Q", title="To", format=".1%"),
            alt.Tooltip("p:Q", title="p-value", format=".2~g"),
        ],
    )
    color: Any
    if several:
        color = alt.Color("run:N", title=None, scale=in_order(weights, range=list(SERIES)))
        base = base.encode(yOffset=alt.YOffset("run:N", scale=in_order(weights)))
    else:
        color = alt.condition(f"datum.p <= {LIKELY}", alt.value(BLUE), alt.value(GREY))
    where = alt.X(
        "part:Q",
        title="Part of the differences in latency that the decision explains alone",
        axis=alt.Axis(format="%", tickCount=6),
        scale=alt.Scale(domainMin=0),
    )
    ranges = base.mark_rule(strokeWidth=7, opacity=0.32, strokeCap="round").encode(
        alt.X("low:Q"), alt.X2("high:Q"), color=color
    )
    points = base.mark_point(filled=True, size=80, opacity=1).encode(where, color=color)
    return alt.LayerChart(layer=[ranges, points]).properties(width=WIDTH, height=alt.Step(26))


def _rows(weights: Mapping[str, Sequence[Weight]], sites: int) -> list[dict[str, Any]]:
    best: dict[str, float] = {}
    for of_one in weights.values():
        for weight in of_one:
            if weight.importance is not None:
                name = weight.column.name
                best[name] = max(best.get(name, 0.0), weight.importance.part)
    kept = sorted(best, key=lambda name: -best[name])[:sites]
    found = []
    for run, of_one in weights.items():
        for weight in of_one:
            name = weight.column.name
            if name not in kept or weight.importance is None:
                continue
            part, low, high, p_value = weight.importance
            found.append(
                {
                    "run": run,
                    "site": name,
                    "module": weight.column.module,
                    "tried": weight.tried,
                    "part": significant(part, 4),
                    "low": significant(low, 4),
                    "high": significant(high, 4),
                    "p": significant(p_value, 3),
                }
            )
    return sorted(found, key=lambda row: kept.index(row["site"]))


# -- Why traces were rejected and candidates failed, and by what ----------------------------------

_OTHER = "other reasons"


def rejections(runs: Runs) -> alt.Chart:
    """Return a chart of what was rejected or failed, by module and instruction, and why.

    ValueError where nothing was rejected, and for a run whose database does not say.
    """
    name, history = one_run("rejections", runs)
    places = rejection_places(history)
    if not places:
        raise ValueError(f"{name}: {why_no_rejections(history)}")
    chart = rejections_chart(places, inline)
    return styled(chart, f"Rejected and failed: {name}")


def why_no_rejections(history: RunHistory) -> str:
    """Return why there are no rejections."""
    return history.lacks.get(REJECTIONS, "nothing was rejected, and nothing failed")


def rejections_chart(places: Sequence[RejectionPlace], source: Source) -> alt.Chart:
    """Return the chart without its style."""
    reasons = reasons_of(places)
    # One colour is left for the rest.
    named = reasons if len(reasons) <= len(SERIES) else reasons[: len(SERIES) - 1]
    shown = [*named, *([_OTHER] if len(named) < len(reasons) else [])]
    rows = [
        {
            "place": place.name,
            "reason": reason,
            "shown": reason if reason in named else _OTHER,
            "count": count,
            "order": reasons.index(reason),
        }
        for place in places
        for reason, count in place.reasons.items()
    ]
    chart: alt.Chart = (
        alt.Chart(source("places", lambda: rows))
        .mark_bar(height={"band": 0.72})
        .encode(
            alt.X("count:Q", title="Number of traces", axis=alt.Axis(tickMinStep=1, format=",~r")),
            names_up("place", (place.name for place in places), 280, grid=False),
            alt.Color(
                "shown:N",
                title=None,
                scale=alt.Scale(
                    domain=shown,
                    range=[*SERIES[: len(named)], *([GREY] if len(named) < len(reasons) else [])],
                ),
                legend=alt.Legend(orient="top", columns=4, symbolType="square", labelLimit=220),
            ),
            order=alt.Order("order:Q"),
            tooltip=[
                alt.Tooltip("place:N", title="Place"),
                alt.Tooltip("reason:N", title="Reason"),
                alt.Tooltip("count:Q", title="Traces", format=","),
            ],
        )
        .properties(width=WIDTH, height=alt.Step(26))
    )
    return chart
