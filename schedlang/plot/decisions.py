"""Two decisions against each other, with the way that the search took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from schedlang.database.history import RunHistory
from schedlang.database.trials import TrialRow, gains
from schedlang.plot.convergence import NO_LATENCY, unit_of
from schedlang.plot.sources import Runs, one_run
from schedlang.plot.style import Data, Source, Unit, inline, significant, styled
from schedlang.plot.tables.decisions import (
    Column,
    Decisions,
    default_pair,
    read_decisions,
    shown_values,
    weigh,
)

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
