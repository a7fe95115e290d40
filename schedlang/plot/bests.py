"""The best programs of several runs, as they were timed."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import altair as alt

from schedlang.measurement.finals import median_interval
from schedlang.plot.medians import axis_of, medians_chart, names_up
from schedlang.plot.style import Source, Unit, significant


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
    tips = [
        alt.Tooltip("run:N", title="Run"),
        alt.Tooltip("latency:Q", title=f"Median ({unit.name})", format=",.4~r"),
        alt.Tooltip("low:Q", title="From", format=",.4~r"),
        alt.Tooltip("high:Q", title="To", format=",.4~r"),
        alt.Tooltip("samples:Q", title="Samples"),
    ]
    return medians_chart(
        across,
        names_up("run", samples, 260),
        source("samples", lambda: rows),
        source("medians", lambda: medians),
        tips=tips,
    )


def _domain(samples: Mapping[str, Sequence[float]], unit: Unit) -> list[float]:
    """Return the ends of the axis: all intervals, and samples that are no outliers."""
    intervals = [median_interval(of_one) for of_one in samples.values()]
    shown = [end for interval in intervals for end in (interval.low, interval.high)]
    return [end * unit.scale for end in axis_of(samples.values(), shown)]
