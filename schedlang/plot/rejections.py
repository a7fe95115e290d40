"""Why traces were rejected and candidates failed, and by what."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from schedlang.database.history import REJECTIONS, RunHistory
from schedlang.plot.medians import names_up
from schedlang.plot.sources import Runs, one_run
from schedlang.plot.style import GREY, SERIES, WIDTH, Source, inline, styled
from schedlang.plot.tables.rejections import Place, reasons_of, rejection_places

_OTHER = "other reasons"


def rejections(runs: Runs) -> alt.Chart:
    """Return a chart of what was rejected or failed, by module and instruction, and why.

    ValueError where nothing was rejected, and for a run whose database does not say.
    """
    name, history = one_run("rejections", runs)
    places = rejection_places(history)
    if not places:
        raise ValueError(f"{name}: {why_empty(history)}")
    chart = rejections_chart(places, inline)
    return styled(chart, f"Rejected and failed: {name}")


def why_empty(history: RunHistory) -> str:
    """Return why there are no rejections."""
    return history.lacks.get(REJECTIONS, "nothing was rejected, and nothing failed")


def rejections_chart(places: Sequence[Place], source: Source) -> alt.Chart:
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
