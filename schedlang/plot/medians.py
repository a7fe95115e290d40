"""Samples of several programs or runs, each a row: small marks, the median, and its interval."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import altair as alt

from schedlang.measurement.finals import median_interval
from schedlang.plot.style import BLUE, GREY, WIDTH, Data, Source, Unit, in_order, significant


def names_up(field: str, names: Iterable[str], longest: int, *, grid: bool = True) -> alt.Y:
    """Return an axis with a row for each name, in this order; ``longest`` label in pixels."""
    return alt.Y(
        f"{field}:N",
        title=None,
        scale=in_order(names),
        axis=alt.Axis(labelLimit=longest, ticks=False, domain=False, labelPadding=8, grid=grid),
    )


def without_outliers(samples: Sequence[float]) -> tuple[float, float]:
    """Return the lowest and the highest sample up to Tukey's fences.

    The fences lie one and a half interquartile ranges outside the quartiles.
    """
    if len(samples) < 2:
        return samples[0], samples[0]
    first, _, third = statistics.quantiles(samples, n=4, method="inclusive")
    fence = 1.5 * (third - first)
    inside = [one for one in samples if first - fence <= one <= third + fence]
    return min(inside), max(inside)


def axis_of(groups: Iterable[Sequence[float]], shown: Iterable[float]) -> list[float]:
    """Return both ends of an axis: all of ``shown``, each group without its outliers, some room."""
    ends = [*shown, *(end for group in groups for end in without_outliers(group))]
    low, high = min(ends), max(ends)
    room = 0.06 * (high - low) or 0.02 * abs(low) or 0.01
    return [low - room, high + room]


def medians_chart(
    across: alt.X,
    up: alt.Y,
    samples: Data,
    medians: Data,
    *,
    tips: Sequence[alt.Tooltip],
    sample_tips: Sequence[alt.Tooltip] = (),
    behind: Sequence[alt.Chart] = (),
) -> alt.LayerChart:
    """Return a chart of samples, and of medians with their intervals, from ``low`` to ``high``.

    Parameters
    ----------
    across, up: the axes of both.
    tips: of medians. sample_tips: of samples, which have none without.
    behind: layers behind them.
    """
    ticks = alt.Chart(samples).mark_tick(
        thickness=1.5, opacity=0.4, color=GREY, height=16, clip=True
    )
    shown = {"tooltip": list(sample_tips)} if sample_tips else {}
    base = alt.Chart(medians)
    ranges = base.mark_rule(color=BLUE, strokeWidth=3).encode(
        alt.X("low:Q"), alt.X2("high:Q"), up, tooltip=list(tips)
    )
    points = base.mark_point(filled=True, size=90, color=BLUE, opacity=1).encode(
        across, up, tooltip=list(tips)
    )
    layers = [*behind, ticks.encode(across, up, **shown), ranges, points]
    return alt.LayerChart(layer=layers).properties(width=WIDTH, height=alt.Step(38))


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
