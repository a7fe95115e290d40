"""Searches layer by layer, really measured: Droplet, Figures 11, 18 and 19; Storm, Figure 16.

Layers are tuned one by one, each search with a database of its own, and the winners of a layer are
timed in turns. ResNet-18's are convolutions with batch normalisation and ReLU, as TVM fuses them;
AlexNet's are convolutions. Poolings and dense layers are left out; a network's time is the sum of
its layers, each as often as it occurs.

Droplet's other searches are AutoTVM's grid, random, genetic and model-based ones; there is no
genetic search without a model in schedlang, and its default, ``auto``, stands beside them. Storm's
Figure 16 has the exploiters of Figure 14, after the same exploration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from _race_plot import finish, label_axes, with_panels

import schedlang as sl
from paper_rows.figure import Figure, Row, Settings, Unit, grouped
from paper_rows.sides import (
    TO_THE_END,
    Side,
    descent_after,
    exploiting,
    from_origin,
    raced,
    total,
)
from paper_rows.storm import BEFORE, EXPLOITED, EXPLOITERS

# Height, channels in and out, kernel, stride, padding, and how often it occurs (He et al., 2016,
# Table 1; Krizhevsky et al., 2012, with one tower).
_RESNET_18 = (
    (224, 3, 64, 7, 2, 3, 1),
    (56, 64, 64, 3, 1, 1, 4),
    (56, 64, 128, 3, 2, 1, 1),
    (56, 64, 128, 1, 2, 0, 1),
    (28, 128, 128, 3, 1, 1, 3),
    (28, 128, 256, 3, 2, 1, 1),
    (28, 128, 256, 1, 2, 0, 1),
    (14, 256, 256, 3, 1, 1, 3),
    (14, 256, 512, 3, 2, 1, 1),
    (14, 256, 512, 1, 2, 0, 1),
    (7, 512, 512, 3, 1, 1, 3),
)
_ALEXNET = (
    (224, 3, 64, 11, 4, 2, 1),
    (27, 64, 192, 5, 1, 2, 1),
    (13, 192, 384, 3, 1, 1, 1),
    (13, 384, 256, 3, 1, 1, 1),
    (13, 256, 256, 3, 1, 1, 1),
)
_LAYERS = {"resnet-18": ("CBR", _RESNET_18), "alexnet": ("C2D", _ALEXNET)}
# Trials of a search that does not end by itself: AutoTVM's have up to 1,620 a layer.
TRIALS, _QUICK_TRIALS = 64, 12
# Limit of each search, which grid search reaches first: its first programs are the slowest.
_MOST_SECONDS = 20.0
_QUICK_LAYERS = 2
_DROPLET = "droplet"


def units(networks: Sequence[str], settings: Settings) -> list[Unit]:
    """Return a unit for each layer; the last two of the first network where it is to be quick."""
    found = [
        {"network": network, "layer": number, "times": layer[-1]}
        for network in networks
        for number, layer in enumerate(_LAYERS[network][1])
    ]
    if not settings.quick:
        return found
    return [unit for unit in found if unit["network"] == networks[0]][-_QUICK_LAYERS:]


def workload_of(unit: Unit) -> sl.Workload:
    """Return the program of a layer."""
    operator, layers = _LAYERS[unit["network"]]
    size, wide, out, kernel, stride, padding, _ = layers[unit["layer"]]
    return sl.workloads.get(
        operator,
        height=size,
        width=size,
        in_channels=wide,
        out_channels=out,
        kernel_size=kernel,
        stride=stride,
        padding=padding,
    )


def searched(unit: Unit, settings: Settings) -> Row:
    """Droplet, Figures 11, 18 and 19: searches on a layer, one of which ends by itself."""
    trials = _QUICK_TRIALS if settings.quick else TRIALS
    most = trials if settings.quick else TO_THE_END
    sides = {_DROPLET: Side(from_origin(), most, _MOST_SECONDS)}
    names = {"grid": "grid", "random": "random", "model": "evolutionary", "auto": "auto"}
    sides |= {name: Side(search, trials, _MOST_SECONDS) for name, search in names.items()}
    return {"sides": raced(workload_of(unit), sides, unit, settings)}


def exploited(unit: Unit, settings: Settings) -> Row:
    """Storm, Figure 16: the same exploration of a layer, then the descent or another search."""
    explored, more = (6, 6) if settings.quick else (BEFORE, EXPLOITED)
    sides = {"descent": Side(descent_after(explored), explored + more, _MOST_SECONDS)}
    for name, search in EXPLOITERS.items():
        sides[name] = Side(exploiting(search, explored), explored + more, _MOST_SECONDS)
    return {"sides": raced(workload_of(unit), sides, {"after": "exploring"} | unit, settings)}


def show(rows: Sequence[Row]) -> None:
    """Print microseconds, seconds and trials of each layer and side, and a network's sums."""
    sides = [*rows[0]["sides"]]
    for network, mine in grouped(rows, "network").items():
        print(f"\n{network}: latency (us), search (s), trials of each")
        print(f"{'layer':16}" + "".join(f"{side:^24}" for side in sides))
        for row in mine:
            cells = (row["sides"][side] for side in sides)
            _print_line(_title(row["unit"]), [_numbers(one) for one in cells])
        sums = [[total(mine, side, what) for what in _WHAT] for side in sides]
        _print_line("sum", sums)


_WHAT = ("latency", "seconds", "trials")


def _numbers(side: Mapping[str, Any]) -> list[float]:
    return [side[what] for what in _WHAT]


def _print_line(title: str, cells: Sequence[Sequence[float]]) -> None:
    print(
        f"{title:16}" + "".join(f"{one[0] * 1e6:10.1f}{one[1]:8.1f}{one[2]:6.0f}" for one in cells)
    )


def _title(unit: Unit) -> str:
    size, wide, out, kernel, *_, times = _LAYERS[unit["network"]][1][unit["layer"]]
    return f"{size} {wide}>{out} {kernel}x{kernel}" + (f" x{times}" if times > 1 else "")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the best so far over the trials, a panel for each layer; a star where a descent ends."""
    sides = [*rows[0]["sides"]]
    figure, panels = with_panels(
        [f"{one['unit']['network']} {_title(one['unit'])}" for one in rows]
    )
    handles: dict[str, Any] = {}
    for panel, row in zip(panels, rows, strict=True):
        # What the winners take in turns is the measure; a run's own clock may differ a little.
        least = min(min(one["curve"].values()) for one in row["sides"].values())
        for side, colour in zip(sides, _COLOURS, strict=False):
            curve = row["sides"][side]["curve"]
            at, best = [int(number) for number in curve], [one / least for one in curve.values()]
            (handles[side],) = panel.plot(at, best, color=colour, linewidth=1.5)
            if side in (_DROPLET, "descent"):
                panel.plot(at[-1:], best[-1:], "*", color=colour, markersize=11)
        panel.set_xscale("log")
        panel.set_ylim(0.95, 3.0)
        label_axes(panel)
    figure.supxlabel("trials")
    figure.supylabel("best so far over the best of all")
    finish(figure, handles, path)


_COLOURS = ("#009E73", "#56B4E9", "#999999", "#0072B2", "#D55E00")

FIGURES = (
    Figure(
        "droplet-layers",
        "Droplet Search, Figures 11, 18 and 19, really measured",
        partial(units, ("resnet-18", "alexnet")),
        searched,
        show,
        draw,
    ),
    Figure(
        "storm-layers",
        "Explore as a Storm, Figure 16, really measured",
        partial(units, ("alexnet",)),
        exploited,
        show,
        draw,
    ),
)
