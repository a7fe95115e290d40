"""The best programs of several runs, as they were timed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import altair as alt

from schedlang.measurement.finals import median_interval
from schedlang.plot.fences import axis_of
from schedlang.plot.style import BLUE, GREY, WIDTH, Source, Unit, in_order, significant


def bests_chart(
    samples: Mapping[str, Sequence[float]], unit: Unit, source: Source
) -> alt.LayerChart:
    """Return a chart of latencies in seconds by name: each sample, the median and its interval."""
    rows = [
        {"run": name, "latency": significant(sample * unit.scale)}
        for name, of_one in samples.items()
        for sample in of_one
    ]
    medians = []
    for name, of_one in samples.items():
        interval = median_interval(of_one)
        middle = statistics.median(of_one)
        medians.append(
            {
                "run": name,
                "latency": significant(middle * unit.scale),
                "low": significant(interval.low * unit.scale),
                "high": significant(interval.high * unit.scale),
                "samples": len(of_one),
            }
        )
    across = alt.X(
        "latency:Q",
        title=f"Latency of the best program ({unit.name})",
        scale=alt.Scale(domain=_domain(samples, unit), nice=False, clamp=True),
        axis=alt.Axis(format=",~r"),
    )
    up = alt.Y(
        "run:N",
        title=None,
        scale=in_order(samples),
        axis=alt.Axis(labelLimit=260, ticks=False, domain=False, labelPadding=8, grid=True),
    )
    tips = [
        alt.Tooltip("run:N", title="Run"),
        alt.Tooltip("latency:Q", title=f"Median ({unit.name})", format=",.4~r"),
        alt.Tooltip("low:Q", title="From", format=",.4~r"),
        alt.Tooltip("high:Q", title="To", format=",.4~r"),
        alt.Tooltip("samples:Q", title="Samples"),
    ]
    single = (
        alt.Chart(source("samples", lambda: rows))
        .mark_tick(thickness=1.5, opacity=0.4, color=GREY, height=16, clip=True)
        .encode(across, up)
    )
    middle_layer = alt.Chart(source("medians", lambda: medians))
    ranges = middle_layer.mark_rule(color=BLUE, strokeWidth=3).encode(
        alt.X("low:Q"), alt.X2("high:Q"), up, tooltip=tips
    )
    points = middle_layer.mark_point(filled=True, size=90, color=BLUE, opacity=1).encode(
        across, up, tooltip=tips
    )
    return alt.LayerChart(layer=[single, ranges, points]).properties(
        width=WIDTH, height=alt.Step(38)
    )


def _domain(samples: Mapping[str, Sequence[float]], unit: Unit) -> list[float]:
    """Return the ends of the axis: all intervals, and samples that are no outliers."""
    intervals = [median_interval(of_one) for of_one in samples.values()]
    shown = [end for interval in intervals for end in (interval.low, interval.high)]
    return [end * unit.scale for end in axis_of(samples.values(), shown)]
