"""Explore as a Storm, Exploit as a Raindrop: its figures on recorded spaces.

DPAnsor explores K programs and descends once from the best of them, in its sketch, until no
neighbour is faster; Ansor explores 10,000. Here ``ExploreExploit`` explores with ``Evolutionary``,
and the other side is ``Evolutionary`` alone; a recorded space has 840 to 2,640 programs, so 10,000
trials measure all that it still finds, and the ratio of the latencies cannot exceed that of what
it missed. Seconds are simulated: of building, running and verifying as recorded, of searching as
it took here. Ratios are the other side's figure over that of the descent: above 1 supports the
paper.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from _race_plot import COLOURS, finish, label_axes, with_panels
from searches import SPACES

from paper_rows.figure import Figure, Row, Settings, Unit, grouped
from paper_rows.sides import descent_after, exploiting
from paper_rows.simulated import draw_spaces, path_of, print_ratios, ratios, tuned, units
from schedlang.search import Evolutionary, Grid, Random
from schedlang.search.base import StrategyBase

EXPLORED = (1, 10, 25, 50, 100, 200, 300, 1000)
_QUICK = (1, 25)
MOST = 10_000
# Figure 14: programs that are explored before, and what each exploiter may measure at most. The
# paper explores 300 for a whole network, which are 23 for each kernel of its smallest.
BEFORE, EXPLOITED = 25, 100

EXPLOITERS: Mapping[str, type[StrategyBase]] = {
    "grid": Grid,
    "random": Random,
    "model": Evolutionary,
}
"""What takes the place of the descent: the paper's grid, random and model-based search."""


def budgets(unit: Unit, settings: Settings) -> Row:
    """Figures 10, 11, 17 and 18: K explored programs and a descent, against exploring alone."""
    path = path_of(unit, settings)
    row: Row = {"alone": tuned(path, unit["seed"], "evolutionary", MOST)}
    for number in _QUICK if settings.quick else EXPLORED:
        row[str(number)] = tuned(path, unit["seed"], descent_after(number), MOST)
    return row


def _explored(rows: Sequence[Row]) -> list[str]:
    """Return the numbers K that rows have figures for."""
    return [name for name in rows[0] if name.isdigit()]


def show_budgets(rows: Sequence[Row]) -> None:
    """Print the ratios for each K, and the trials of the descents."""
    columns = {number: ("alone", number) for number in _explored(rows)}
    title = "latency after 10,000 trials / after K and a descent"
    print_ratios(rows, columns, "latency", title)
    print_ratios(rows, columns, "seconds", "seconds of 10,000 trials / of K and a descent")
    wide = max(len(row["unit"]["space"]) for row in rows) + 2
    print(f"\n{'trials of the descent':{wide}}")
    for name, mine in [*grouped(rows, "space").items(), ("mean", rows)]:
        found = [
            # None where a space has fewer programs than are to be explored.
            statistics.fmean(max(row[number]["trials"] - int(number), 0) for row in mine)
            for number in columns
        ]
        print(f"{name:{wide}}" + "".join(f"{one:8.1f}" for one in found))


def network_units(settings: Settings) -> list[Unit]:
    """Return a unit for each recorded layer of AlexNet and seed."""
    layers = sorted(SPACES.glob("*/alexnet/*.space"))
    return units(replace(settings, spaces=layers[:1] if settings.quick else layers))


def show_network(rows: Sequence[Row]) -> None:
    """Print the same for layers, and the ratios of the sums over all layers."""
    show_budgets(rows)
    explored = _explored(rows)
    print("\nsum of all layers, 10,000 trials / K and a descent\n" + f"{'':10}" + _cells(explored))
    for what in ("latency", "seconds"):
        sums = {side: sum(row[side][what] for row in rows) for side in ("alone", *explored)}
        print(f"{what:10}" + _cells([f"{sums['alone'] / sums[one]:.3f}" for one in explored]))


def _cells(texts: Sequence[str]) -> str:
    return "".join(text.rjust(8) for text in texts)


def draw_budgets(rows: Sequence[Row], path: Path) -> None:
    """Draw both ratios over K: spaces thin, their geometric mean thick."""
    explored = _explored(rows)
    numbers = [int(one) for one in explored]
    titles = {"latency": "latency", "seconds": "time of the search"}
    figure, panels = with_panels([*titles.values()])
    handles: dict[str, Any] = {}
    for panel, what in zip(panels, titles, strict=True):

        def values(mine: Sequence[Row], what: str = what) -> list[float]:
            return [ratios(mine, "alone", one, what) for one in explored]

        mean = "geometric mean", COLOURS["explore_exploit"]
        draw_spaces(panel, numbers, rows, values, handles, mean)
        panel.set_xscale("log")
        panel.axhline(1.0, color="black", linewidth=0.7)
        label_axes(panel)
    panels[1].set_yscale("log")
    figure.supxlabel("explored programs K")
    figure.supylabel("10,000 trials over K and a descent")
    finish(figure, handles, path)


def exploiters(unit: Unit, settings: Settings) -> Row:
    """Figure 14: the same exploration, then a descent until it ends, or another for 100 trials."""
    path, seed = path_of(unit, settings), unit["seed"]
    row: Row = {"descent": tuned(path, seed, descent_after(BEFORE), BEFORE + EXPLOITED)}
    for name, search in EXPLOITERS.items():
        row[name] = tuned(path, seed, exploiting(search, BEFORE), BEFORE + EXPLOITED)
    return row


def show_exploiters(rows: Sequence[Row]) -> None:
    """Print what the other exploiters take and find, over the descent."""
    columns = {name: (name, "descent") for name in EXPLOITERS}
    print_ratios(rows, columns, "latency", "latency / the descent's")
    print_ratios(rows, columns, "seconds", "seconds / the descent's")


FIGURES = (
    Figure(
        "storm-budgets",
        "Explore as a Storm, Figures 10, 11, 17 and 18, on recorded spaces",
        units,
        budgets,
        show_budgets,
        draw_budgets,
        simulated=True,
    ),
    Figure(
        "storm-network",
        "Explore as a Storm, Figures 10 and 11, on the recorded convolutions of AlexNet",
        network_units,
        budgets,
        show_network,
        draw_budgets,
        simulated=True,
    ),
    Figure(
        "storm-exploiters",
        "Explore as a Storm, Figure 14, on recorded spaces",
        units,
        exploiters,
        show_exploiters,
        simulated=True,
    ),
)
