"""Which decisions have to do with latency, and how surely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from schedlang.plot.medians import names_up
from schedlang.plot.sources import Runs, histories_of
from schedlang.plot.style import (
    BLUE,
    GREY,
    SERIES,
    WIDTH,
    Source,
    in_order,
    inline,
    significant,
    styled,
)
from schedlang.plot.tables.decisions import Weight, read_decisions, weigh

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
