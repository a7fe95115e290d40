"""The finals: how much slower than the winner each program was, round by round."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

import altair as alt

from schedlang.database.history import FINALS, RunHistory
from schedlang.measurement.finals import median_interval
from schedlang.plot.sources import Runs, one_run
from schedlang.plot.style import BLUE, GREY, WIDTH, Data, Source, in_order, inline, styled
from schedlang.plot.tables import FinalsTable, finals_table
from schedlang.printed import Unit, latency_unit, significant


def finals(runs: Runs) -> alt.LayerChart:
    """Return a chart of the finals: each program's latency over the winner's, round by round.

    A small point is a round, a large one the median with its confidence interval. Outliers are
    drawn at the edge. The band is the noise floor, half the width of the confidence interval of the
    winner's median: smaller differences cannot be told from noise. ValueError for several runs, and
    where no finals were held.
    """
    name, history = one_run("finals", runs)
    table = finals_table(history)
    if not comparable(table):
        raise ValueError(f"{name}: {why_no_finals(history)}")
    return styled(finals_chart(table, inline), f"Finals: {name}")


def comparable(table: FinalsTable) -> bool:
    """Whether there is a winner, and another program that was timed in the same rounds."""
    return any(one.difference is not None for one in table.finalists)


def why_no_finals(history: RunHistory) -> str:
    """Return why there is nothing to compare."""
    default = (
        "only one program took part, or the others failed"
        if history.finals
        else ("no finals were held: only one program could win, or the run has not ended")
    )
    return history.lacks.get(FINALS, default)


def _domain(table: FinalsTable) -> list[float]:
    """Return the ends of the axis: the medians, the noise, and rounds that are no outliers.

    An interval that ends at an outlier is drawn to the edge.
    """
    noise = table.noise or 0.0
    compared = [one for one in table.finalists if one.difference is not None]
    medians = [one.difference for one in compared if one.difference is not None]
    low, high = axis_of([one.differences for one in compared], [*medians, noise, -noise])
    # Nothing takes less than no time.
    return [max(low, -1.0), high]


def finals_chart(table: FinalsTable, source: Source) -> alt.LayerChart:
    """Return the chart without its style."""
    winner = table.finalists[0].name
    names = [one.name for one in table.finalists if one.difference is not None]
    unit = latency_unit(one.latency for one in table.finalists if one.latency)
    rounds, medians = [], []
    for one in table.finalists:
        if one.difference is None or one.low is None or one.high is None:
            continue
        for number, difference in enumerate(one.differences, 1):
            rounds.append(
                {"name": one.name, "round": number, "difference": significant(difference, 4)}
            )
        medians.append(
            {
                "name": one.name,
                "difference": significant(one.difference, 4),
                "low": significant(one.low, 4),
                "high": significant(one.high, 4),
                "latency": significant((one.latency or 0.0) * unit.scale, 5),
                "p": significant(one.p_value or 0.0, 3),
            }
        )
    across = alt.X(
        "difference:Q",
        title=f"Latency relative to the winner ({winner}); to the right is slower",
        axis=alt.Axis(format="+.1%", tickCount=7),
        scale=alt.Scale(domain=_domain(table), nice=False, clamp=True),
    )
    noise = significant(table.noise or 0.0, 4)
    floor = alt.Chart(
        source(
            "floor",
            lambda: [
                {"low": max(-noise, -1.0), "high": noise, "text": f"noise floor \xb1{noise:.2%}"}
            ],
        )
    )
    band = floor.mark_rect(color=GREY, opacity=0.22).encode(
        alt.X("low:Q"),
        alt.X2("high:Q"),
        tooltip=[alt.Tooltip("text:N", title="Winner")],
    )
    label = floor.mark_text(baseline="bottom", dy=-4, fontSize=11, color=GREY).encode(
        x=alt.datum(0), y=alt.value(0), text="text:N"
    )
    zero = floor.mark_rule(color=GREY, strokeWidth=1.5).encode(x=alt.datum(0))
    sample_tips = [
        alt.Tooltip("name:N", title="Program"),
        alt.Tooltip("round:Q", title="Round"),
        alt.Tooltip("difference:Q", title="Difference", format="+.2%"),
    ]
    tips = [
        alt.Tooltip("name:N", title="Program"),
        alt.Tooltip("latency:Q", title=f"Median ({unit.name})", format=",.4~r"),
        alt.Tooltip("difference:Q", title="Median difference", format="+.2%"),
        alt.Tooltip("low:Q", title="From", format="+.2%"),
        alt.Tooltip("high:Q", title="To", format="+.2%"),
        alt.Tooltip("p:Q", title="p-value", format=".2~g"),
    ]
    return medians_chart(
        across,
        names_up("name", names, 180),
        source("rounds", lambda: rounds),
        source("medians", lambda: medians),
        tips=tips,
        sample_tips=sample_tips,
        behind=[band, label, zero],
    )


# -- Samples of several programs or runs: small marks, the median, and its interval ---------------


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
        scale=alt.Scale(domain=_padded_domain(samples, unit), nice=False, clamp=True),
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


def _padded_domain(samples: Mapping[str, Sequence[float]], unit: Unit) -> list[float]:
    """Return the ends of the axis: all intervals, and samples that are no outliers."""
    intervals = [median_interval(of_one) for of_one in samples.values()]
    shown = [end for interval in intervals for end in (interval.low, interval.high)]
    return [end * unit.scale for end in axis_of(samples.values(), shown)]
