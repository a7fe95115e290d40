"""Plot the best latency so far over wall time and over trials, with one panel per workload."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _contest import median
from _race import Point
from _race_figures import DEFAULT, PEER

# Okabe and Ito's palette: distinguishable with colour vision deficiencies.
COLOURS = {
    DEFAULT: "#D55E00",
    PEER: "#000000",
    "random": "#999999",
    "evolutionary": "#0072B2",
    "coordinate_descent": "#009E73",
    "explore_exploit": "#CC79A7",
    "tree_search": "#E69F00",
    "grid": "#56B4E9",
}
LABELS = {DEFAULT: "auto (the default)", PEER: "MetaSchedule"}
_FINALS = "timed against each other at the end"
_COLUMNS = 4
_STEPS = 400
# The panel cuts off slower programs: curves begin orders of magnitude higher.
_HEADROOM = 3.0


def draw(
    rows: Sequence[Mapping[str, Any]],
    finals: Sequence[Mapping[str, Any]],
    trials: tuple[int, int],
    path: Path,
) -> list[Path]:
    """Write the figure over wall time to ``path`` and the one over trials beside it.

    Each line is the median over the seeds; the dot at its end is the latency in the finals.
    """
    paths = [path, path.with_stem(f"{path.stem}_trials")]
    for over_time, one in zip((True, False), paths, strict=True):
        _draw(rows, finals, trials, one, over_time=over_time)
    return paths


def _draw(
    rows: Sequence[Mapping[str, Any]],
    finals: Sequence[Mapping[str, Any]],
    trials: tuple[int, int],
    path: Path,
    *,
    over_time: bool,
) -> None:
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure, panels = with_panels(names)
    handles: dict[str, Any] = {}
    for panel, name in zip(panels, names, strict=True):
        _draw_panel(panel, name, rows, finals, trials, over_time, handles)
    figure.supxlabel("wall time of the run (s)" if over_time else "trials measured")
    figure.supylabel("best latency so far (µs)")
    if _FINALS in handles:
        handles[_FINALS] = handles.pop(_FINALS)  # the last one
    finish(figure, handles, path)


def with_panels(names: Sequence[str]) -> tuple[Any, list[Any]]:
    """Return a figure and a panel for each name, with the name as its title."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = min(_COLUMNS, math.ceil(math.sqrt(len(names))))
    lines = math.ceil(len(names) / columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(1.0 + 4.0 * columns, 2.9 * lines + 0.8),
        squeeze=False,
        layout="constrained",
    )
    panels = list(axes.flatten())
    for panel, name in zip(panels, names, strict=False):
        panel.set_title(name)
    for panel in panels[len(names) :]:
        panel.set_visible(False)
    return figure, panels[: len(names)]


def finish(figure: Any, handles: Mapping[str, Any], path: Path) -> None:
    """Write a figure with its legend above the panels, and close it."""
    import matplotlib.pyplot as plt

    visible = sum(panel.get_visible() for panel in figure.axes)
    figure.legend(
        handles.values(),
        handles,
        loc="outside upper center",
        ncols=_COLUMNS if visible > 1 else 2,
        frameon=False,
    )
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _draw_panel(
    panel: Any,
    name: str,
    rows: Sequence[Mapping[str, Any]],
    finals: Sequence[Mapping[str, Any]],
    trials: tuple[int, int],
    over_time: bool,
    handles: dict[str, Any],
) -> None:
    from matplotlib.lines import Line2D

    own = [row for row in rows if row["workload"] == name and row["curve"]]
    lowest, highest, slowest = math.inf, 0.0, 0.0
    for search in COLOURS:
        # The default's run with the smaller number of trials has a curve of its own.
        curves = [r["curve"] for r in own if r["search"] == search and r["trials"] == trials[1]]
        if not curves:
            continue
        x, y = median_curve(curves, over_time=over_time)
        prominent = search in (DEFAULT, PEER)
        (line,) = panel.step(
            x,
            [value * 1e6 for value in y],
            where="post",
            color=COLOURS[search],
            linewidth=2.2 if prominent else 1.3,
            zorder=3 if prominent else 2,
        )
        handles.setdefault(LABELS.get(search, search), line)
        found = [
            one["latency"].get(search, {}).get(str(trials[1]))
            for one in finals
            if one["workload"] == name
        ]
        if (latency := median(found)) is not None:
            dot = {"marker": "o", "markersize": 5, "linestyle": "none"}
            panel.plot(x[-1], latency * 1e6, color=COLOURS[search], zorder=4, **dot)
            handles.setdefault(_FINALS, Line2D([], [], color="#666666", **dot))
            lowest, slowest = min(lowest, latency), max(slowest, latency)
        lowest, highest, slowest = min(lowest, *y), max(highest, *y), max(slowest, y[-1])
    panel.set_xscale("log")
    panel.set_yscale("log")
    if lowest < math.inf:
        top = max(min(1.1 * highest, _HEADROOM * lowest), 1.1 * slowest)
        panel.set_ylim(0.93e6 * lowest, 1e6 * top)
    label_axes(panel)


def label_axes(panel: Any) -> None:
    """Label ticks with plain numbers, as many as fit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    plain = FuncFormatter(lambda value, _: f"{value:g}")
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.yaxis.set_major_locator(MaxNLocator(5))
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(plain)
        axis.set_minor_locator(NullLocator())
    panel.grid(color="#dddddd", linewidth=0.6)


def median_curve(
    curves: Sequence[Sequence[Point]], *, over_time: bool
) -> tuple[list[float], list[float]]:
    """Median over the seeds of the best so far, where at least half of them have something.

    Points are (trial, seconds, best latency); ends where the longest run does.
    """
    where = 1 if over_time else 0
    starts = [curve[0][where] for curve in curves]
    end = max(curve[-1][where] for curve in curves)
    if over_time:
        grid = list(np.geomspace(min(starts), end, _STEPS))
        # A single curve keeps its own corners.
        grid = sorted({*grid, *(point[where] for curve in curves for point in curve)})
    else:
        grid = list(range(min(starts), end + 1))
    x, y = [], []
    for position in grid:
        best = [_best_at(curve, position, where) for curve in curves]
        middle = float(np.median(best))
        if math.isfinite(middle):
            x.append(float(position))
            y.append(middle)
    return x, y


def _best_at(curve: Sequence[Point], position: float, where: int) -> float:
    number = bisect_right([point[where] for point in curve], position)
    return curve[number - 1][2] if number else math.inf
