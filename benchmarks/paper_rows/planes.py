"""Planes of two decisions with a descent on each: what a row has, its table and its picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _race_figures import DEFAULT
from _race_plot import COLOURS, finish, with_panels

from paper_rows.descent import Costs, Point, least_rise, local_minima
from paper_rows.figure import Row

Named = Sequence[tuple[str, Row]]

_PATH = COLOURS[DEFAULT]
_MOST_TICKS = 6


def plane_row(costs: Costs, path: Sequence[Point], trials: int) -> Row:
    """Return what is known of a plane, and of a descent that visited ``path``, as JSON values.

    ``costs`` has a list for each value of the first decision. ``least rise`` is negative where the
    Droplet Expectation holds.
    """
    optimum = min(costs, key=lambda point: costs[point])
    firsts, seconds = (sorted({point[axis] for point in costs}) for axis in (0, 1))
    return {
        "values": [firsts, seconds],
        "costs": [[costs[one, other] for other in seconds] for one in firsts],
        "optimum": list(optimum),
        "path": [list(point) for point in path],
        "trials": trials,
        "over optimum": costs[path[-1]] / costs[optimum],
        "origin over optimum": costs[min(costs)] / costs[optimum],
        "least rise": least_rise(costs),
        "local minima": local_minima(costs),
    }


def show_planes(named: Named) -> None:
    """Print a line for each plane."""
    wide = max(len(name) for name, _ in named) + 2
    print(
        f"\n{'':{wide}}{'optimum':>10}{'found':>10}{'found/opt':>11}{'origin/opt':>12}"
        f"{'trials':>8}{'of':>5}{'minima':>8}{'least rise':>12}  expectation"
    )
    for name, row in named:
        points = sum(map(len, row["costs"]))
        optimum, found = ("{} x {}".format(*one) for one in (row["optimum"], row["path"][-1]))
        print(
            f"{name:{wide}}{optimum:>10}{found:>10}{row['over optimum']:11.3f}"
            f"{row['origin over optimum']:12.2f}{row['trials']:8}{points:5}"
            f"{row['local minima']:8}{row['least rise']:12.2%}"
            f"  {'holds' if row['least rise'] < 0 else 'does not hold'}"
        )


def draw_planes(named: Named, axes: tuple[str, str], what: str, path: Path) -> None:
    """Draw each plane as a heat map, dark where it is fast, with the path of the descent."""
    from matplotlib.colors import LogNorm

    figure, panels = with_panels([name for name, _ in named])
    handles: dict[str, Any] = {}
    for panel, (_, row) in zip(panels, named, strict=True):
        lowest = min(map(min, row["costs"]))
        relative = [[cost / lowest for cost in line] for line in row["costs"]]
        image = panel.imshow(
            relative, cmap="viridis", norm=LogNorm(1.0, max(map(max, relative))), origin="lower"
        )
        bar = figure.colorbar(image, ax=panel, label=f"{what} / lowest")
        _label_bar(bar, max(map(max, relative)))
        firsts, seconds = row["values"]
        ys = [firsts.index(one) for one, _ in row["path"]]
        xs = [seconds.index(other) for _, other in row["path"]]
        (handles["path of the descent"],) = panel.plot(
            xs, ys, color=_PATH, marker="o", markersize=4, markeredgecolor="white", linewidth=2
        )
        (handles["where it ended"],) = panel.plot(
            xs[-1], ys[-1], "o", markersize=13, markerfacecolor="none", markeredgecolor=_PATH
        )
        (handles["optimum"],) = panel.plot(
            seconds.index(row["optimum"][1]),
            firsts.index(row["optimum"][0]),
            "*",
            markersize=10,
            markerfacecolor="white",
            markeredgecolor="black",
            zorder=3,
        )
        for axis, values in ((panel.yaxis, firsts), (panel.xaxis, seconds)):
            step = -(-len(values) // _MOST_TICKS)
            axis.set_ticks(range(0, len(values), step), [str(one) for one in values[::step]])
    figure.supylabel(axes[0])
    figure.supxlabel(axes[1])
    finish(figure, handles, path)


def _label_bar(bar: Any, most: float) -> None:
    """Label a colour bar with plain numbers, as many as fit."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    subs = (1, 2, 5) if most < 100 else (1,)
    bar.ax.yaxis.set_major_locator(LogLocator(subs=subs))
    bar.ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    bar.ax.yaxis.set_minor_locator(NullLocator())
