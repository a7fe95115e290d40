"""How the best latency of runs fell, over trials or over wall seconds."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import altair as alt

from schedlang.database.history import RunHistory, TrialRow, gains
from schedlang.plot.sources import Runs, histories_of
from schedlang.plot.style import (
    BLUE,
    GREEN,
    GREY,
    HEIGHT,
    ORANGE,
    SERIES,
    VERMILLION,
    WIDTH,
    Source,
    inline,
    styled,
)
from schedlang.plot.tables import machine_limits
from schedlang.printed import Unit, duration_unit, latency_unit, significant

Rows = Mapping[str, Sequence[TrialRow]]
"""The trials of runs by name."""

NO_LATENCY = "no candidate has a latency"
"""Why there is no best latency."""

_BEST, _TRIAL, _FAILED = "best so far", "trial", "failed trial"
_UNCERTAIN = "uncertain trial"
_STEPS = (
    (0.5, (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 9)),
    (1.2, (1, 1.5, 2, 3, 4, 5, 7)),
    (4.0, (1, 2, 5)),
    (math.inf, (1,)),
)
"""Round numbers of a decade, by the number of decades up to which they are shown."""
_UNSCHEDULED, _ROOFLINE = "unscheduled program", "roofline"
_KINDS = {_BEST: BLUE, _TRIAL: GREY, _UNCERTAIN: ORANGE, _FAILED: VERMILLION}


def convergence(runs: Runs, *, over: Over = "trials") -> alt.LayerChart:
    """Return a chart of the best latency of one or several runs so far.

    The band is the confidence interval of the best program's median, as it was measured in the
    search. Of one run, the chart shows each trial too, the unscheduled program, and the shortest
    time that the machine's peak allows. A trial is uncertain where other work disturbed most of its
    samples.

    A list of runs in a dict is one curve: runs of one kernel with several seeds. Its line is the
    median of their best latencies so far, and its band goes from the fastest to the slowest of
    them. It begins where all of them have a latency; a run that ended keeps its best.

    Parameters
    ----------
    runs: what ``tune`` returns or a ``RunHistory``, several in a list, or several, or lists of
        them, in a dict by name.
    over: ``"trials"`` or wall ``"seconds"`` of the run.

    ValueError where no candidate has a latency, and for a curve with runs of several kernels.
    """
    if over not in ("trials", "seconds"):
        raise ValueError(f'over={over!r}; give "trials" or "seconds"')
    if (seeds := seeds_of(runs)) is not None:
        return styled(_seeds_chart(seeds, over), "Best latency so far: median and range of seeds")
    histories = histories_of(runs)
    if not _latencies(rows_of(histories)):
        raise ValueError(f"{', '.join(histories)}: {NO_LATENCY}")
    chart = convergence_chart(histories, over, inline)
    title = "Best latency so far"
    return styled(chart, f"{title}: {next(iter(histories))}" if len(histories) == 1 else title)


def _seeds_chart(seeds: Seeds, over: Over) -> alt.LayerChart:
    histories = {f"{name} {k}": run for name, runs in seeds.items() for k, run in enumerate(runs)}
    channels = _channels(histories, over, rows_of(histories), several=True)
    unit = channels.unit
    tips = [
        *channels.tips[:1],
        channels.tips[1 if over == "trials" else 2],
        channels.tips[3],
        alt.Tooltip("low:Q", title=f"Fastest ({unit.name})", format=",.4~r"),
        alt.Tooltip("high:Q", title=f"Slowest ({unit.name})", format=",.4~r"),
        alt.Tooltip("runs:Q", title="Runs"),
    ]
    channels = replace(channels, runs=list(seeds), tips=tips)
    layers = _best_layers(channels, inline("steps", lambda: median_steps(seeds, over, unit)))
    return alt.LayerChart(layer=layers).properties(width=WIDTH, height=HEIGHT)


def convergence_chart(
    histories: Mapping[str, RunHistory], over: Over, source: Source
) -> alt.LayerChart:
    """Return the chart without its style."""
    rows = rows_of(histories)
    channels = _channels(histories, over, rows, several=len(histories) > 1)
    layers = _best_layers(channels, source("steps", lambda: _steps(rows, channels.unit)))
    if not channels.several:
        [history] = histories.values()
        trials = source("trials", lambda: _trials(rows, channels.unit))
        layers = [
            *_trial_layers(channels, trials),
            *layers,
            *_level_layers(history, channels.unit, source),
        ]
    return alt.LayerChart(layer=layers).properties(width=WIDTH, height=HEIGHT)


def rows_of(histories: Mapping[str, RunHistory]) -> Rows:
    """Return the trials of runs by name."""
    return {name: history.rows for name, history in histories.items()}


def unit_of(rows: Rows) -> Unit:
    """Return the unit of all latencies of some runs."""
    return latency_unit(_latencies(rows))


def _latencies(rows: Rows) -> list[float]:
    found = (row.latency for of_one in rows.values() for row in of_one)
    return [latency for latency in found if latency is not None]


@dataclass(frozen=True)
class _Channels:
    """What all layers have in common: the axes, the tooltips, the units."""

    x: alt.X
    y: alt.Y
    low: alt.Y
    tips: list[alt.Tooltip]
    unit: Unit
    in_time: str
    runs: list[str]
    kinds: Mapping[str, str]
    several: bool

    def color(self) -> alt.Color:
        if self.several:
            scale = alt.Scale(domain=self.runs, range=list(SERIES))
            legend = alt.Legend(orient="top", labelLimit=260, symbolOpacity=1, offset=8)
            return alt.Color("run:N", title=None, scale=scale, legend=legend)
        return alt.Color(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=list(self.kinds), range=list(self.kinds.values())),
            legend=alt.Legend(orient="top", symbolType="circle", symbolOpacity=1, offset=14),
        )


def _channels(
    histories: Mapping[str, RunHistory], over: Over, rows: Rows, *, several: bool
) -> _Channels:
    unit = unit_of(rows)
    ends = [row.seconds for of_one in rows.values() for row in of_one]
    time = duration_unit(max(ends, default=0.0))
    nice = alt.Scale(nice=False)
    if over == "trials":
        axis = alt.Axis(grid=False, format=",~r", tickMinStep=1)
        x = alt.X("trial:Q", title="Trial", axis=axis, scale=nice)
    else:
        axis = alt.Axis(grid=False, format="~r")
        x = alt.X("at:Q", title=f"Wall time ({time.name})", axis=axis, scale=nice)
    options: dict[str, Any] = {
        "title": f"Latency in the search ({unit.name}, log scale)",
        "scale": alt.Scale(type="log", nice=False, padding=8),
        "axis": alt.Axis(format=",~r", values=_ticks(rows, histories, unit)),
    }
    tips = [
        alt.Tooltip("trial:Q", title="Trial"),
        alt.Tooltip("seconds:Q", title="Wall time (s)", format=",.2f"),
        alt.Tooltip("latency:Q", title=f"Latency in the search ({unit.name})", format=",.4~r"),
    ]
    if several:
        tips.insert(0, alt.Tooltip("run:N", title="Run"))
    low, y = alt.Y("low:Q", **options), alt.Y("latency:Q", **options)
    shown = [row for of_one in rows.values() for row in of_one if row.number is not None]
    found = {_BEST, _TRIAL, *map(_kind, shown)}
    kinds = {kind: color for kind, color in _KINDS.items() if kind in found}
    in_time = f"datum.seconds * {time.scale}"
    return _Channels(x, y, low, tips, unit, in_time, list(histories), kinds, several)


def _best_layers(channels: _Channels, data: Any) -> list[alt.Chart]:
    chart = alt.Chart(data).transform_calculate(at=channels.in_time, kind=f"'{_BEST}'")
    color = channels.color()
    # Without it, an area would join the runs.
    detail = [alt.Detail("run:N")] if channels.several else []
    band = chart.mark_area(interpolate="step-after", opacity=0.22, line=False).encode(
        channels.x, channels.low, alt.Y2("high:Q"), color, *detail
    )
    line = chart.mark_line(interpolate="step-after", strokeWidth=2.5).encode(
        channels.x, channels.y, color, *detail
    )
    points = (
        chart.transform_filter("datum.gain")
        .transform_calculate(kind=f"datum.uncertain ? '{_UNCERTAIN}' : '{_BEST}'")
        .mark_point(filled=True, size=34, opacity=1)
        .encode(channels.x, channels.y, color, tooltip=channels.tips)
    )
    return [band, line, points]


def _trial_layers(channels: _Channels, data: Any) -> list[alt.Chart]:
    chart = alt.Chart(data).transform_filter("isValid(datum.trial)")
    color, status = channels.color(), alt.Tooltip("status:N", title="Status")
    measured = (
        chart.transform_filter("isValid(datum.latency)")
        .transform_calculate(
            at=channels.in_time, kind=f"datum.uncertain ? '{_UNCERTAIN}' : '{_TRIAL}'"
        )
        .mark_point(filled=True, size=16, opacity=0.6)
        .encode(channels.x, channels.y, color, tooltip=[*channels.tips, status])
    )
    failed = (
        chart.transform_filter("!isValid(datum.latency)")
        .transform_calculate(at=channels.in_time, kind=f"'{_FAILED}'")
        .mark_tick(orient="vertical", size=9, thickness=1.2, opacity=0.75)
        .encode(channels.x, color, y=alt.value(-6), tooltip=[*channels.tips[:2], status])
    )
    return [measured, failed]


def _level_layers(history: RunHistory, unit: Unit, source: Source) -> list[alt.Chart]:
    """Return lines at the unscheduled program's latency and at the roofline."""
    layers = []
    for name, latency, color in _levels(history):
        own = latency_unit([latency])
        text = f"{name}: {latency * own.scale:,.4g} {own.name}"
        row = {"latency": significant(latency * unit.scale), "text": text}
        base = alt.Chart(source(name, partial(list, [row]))).encode(
            alt.Y("latency:Q"), color=alt.value(color)
        )
        # One is above the trials, and the other one below: their texts are in between.
        side: dict[str, Any] = {"baseline": "top", "dy": 4}
        if name == _ROOFLINE:
            side = {"baseline": "bottom", "dy": -3}
        words = base.mark_text(align="right", dx=-4, fontSize=11, **side)
        layers += [
            base.mark_rule(strokeDash=[6, 4], strokeWidth=1.5),
            words.encode(x=alt.value("width"), text="text:N"),
        ]
    return layers


def _levels(history: RunHistory) -> list[tuple[str, float, str]]:
    """Return name, latency in seconds and colour of what trials are compared with."""
    levels = []
    if history.reference > 0:
        levels.append((_UNSCHEDULED, history.reference, GREY))
    if (shortest := machine_limits(history).roofline.seconds) > 0:
        levels.append((_ROOFLINE, shortest, GREEN))
    return levels


def _ticks(rows: Rows, histories: Mapping[str, RunHistory], unit: Unit) -> list[float]:
    """Return round numbers on a log scale: the fewer in a decade, the more decades there are."""
    shown = _latencies(rows)
    if len(histories) == 1:
        shown += [latency for _, latency, _ in _levels(*histories.values())]
    if not shown:
        return []
    low, high = (math.log10(end(shown) * unit.scale) for end in (min, max))
    steps = next(steps for most, steps in _STEPS if high - low <= most)
    powers = range(math.floor(low), math.floor(high) + 1)
    return [significant(step * 10.0**power) for power in powers for step in steps]


def _kind(row: TrialRow) -> str:
    if row.latency is None:
        return _FAILED
    return _TRIAL if row.record.certain else _UNCERTAIN


def _trials(rows: Rows, unit: Unit) -> list[dict[str, Any]]:
    return [
        {
            "trial": row.number,
            "seconds": significant(row.seconds),
            "latency": None if row.latency is None else significant(row.latency * unit.scale),
            "status": str(row.record.status),
            "uncertain": int(not row.record.certain),
        }
        for of_one in rows.values()
        for row in of_one
        if row.number is not None
    ]


def _steps(rows: Rows, unit: Unit) -> list[dict[str, Any]]:
    """Return the gains, and where each run ended."""
    found: list[dict[str, Any]] = []
    for name, of_one in rows.items():
        best = gains(of_one)
        for gain in best:
            found.append(
                {
                    "run": name,
                    "trial": gain.row.number,
                    "seconds": significant(gain.row.seconds),
                    "latency": significant(gain.latency * unit.scale),
                    "low": significant(gain.low * unit.scale),
                    "high": significant(gain.high * unit.scale),
                    "uncertain": int(not gain.row.record.certain),
                    "gain": True,
                }
            )
        if best:
            trials = max(row.number for row in of_one if row.number is not None)
            seconds = significant(max(row.seconds for row in of_one))
            found.append({**found[-1], "trial": trials, "seconds": seconds, "gain": False})
    return found


# -- Runs of one kernel with several seeds as one curve: median, and band of all ------------------

Over = Literal["trials", "seconds"]
Seeds = Mapping[str, Sequence[RunHistory]]
"""Runs of one kernel by the name of their curve."""


def seeds_of(given: object) -> Seeds | None:
    """Return runs by the name of their curve; None unless a dict has a list of runs.

    ValueError where runs of one curve are of several kernels.
    """
    if not isinstance(given, Mapping):
        return None
    if not any(isinstance(one, list | tuple) for one in given.values()):
        return None
    found = {}
    for name, one in given.items():
        several = one if isinstance(one, list | tuple) else [one]
        runs = list(histories_of(list(several)).values())
        kernels = {run.run.workload_key: run.name for run in runs}
        if len(kernels) > 1:
            raise ValueError(
                f"{str(name)!r} has runs of {len(kernels)} kernels: {', '.join(kernels.values())}; "
                "give runs of one kernel, by their seeds"
            )
        found[str(name)] = runs
    if len(found) < len(given):
        raise ValueError(f"{list(given)}: two curves have the same name as text")
    return found


def median_steps(seeds: Seeds, over: Over, unit: Unit) -> list[dict[str, Any]]:
    """Return where a median, or an end of its band, changes, and where each curve ends.

    A curve begins where all of its runs have a latency. A run that ended keeps its best latency to
    the end of the longest. ValueError for a run without a latency.
    """
    found: list[dict[str, Any]] = []
    for name, runs in seeds.items():
        curves = [_curve(run.rows, over) for run in runs]
        for run, (places, _) in zip(runs, curves, strict=True):
            if not places:
                raise ValueError(f"{name}: no candidate of seed {run.run.seed} has a latency")
        begin = max(places[0] for places, _ in curves)
        end = max(_place(row, over) for run in runs for row in run.rows if row.number is not None)
        inside = {at for places, _ in curves for at in places if at >= begin}
        median: float | None = None
        for at in sorted({*inside, begin, end}):
            now = [latencies[bisect_right(places, at) - 1] for places, latencies in curves]
            before, median = median, statistics.median(now)
            found.append(
                {
                    "run": name,
                    "trial" if over == "trials" else "seconds": significant(at),
                    "latency": significant(median * unit.scale),
                    "low": significant(min(now) * unit.scale),
                    "high": significant(max(now) * unit.scale),
                    "runs": len(runs),
                    "uncertain": 0,
                    "gain": median != before,
                }
            )
    return found


def _curve(rows: Sequence[TrialRow], over: Over) -> tuple[list[float], list[float]]:
    """Return where the best latency of a run fell, and to what."""
    best = gains(rows)
    return [_place(one.row, over) for one in best], [one.latency for one in best]


def _place(row: TrialRow, over: Over) -> float:
    if over == "seconds":
        return row.seconds
    assert row.number is not None
    return row.number
