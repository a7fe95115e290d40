"""deplodock, part 3: its forks left out one by one, and its search's patience.

A fork is a pass of which the search takes one of several forms; here it is a module of the space.
Each operator is tuned in the whole space and in the space without one of the modules that do
something in it, and the winners are timed in turns. Patience is the number of measurements without
a gain that end the search; it is judged on recorded spaces, with single-player tree search.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from _race_plot import COLOURS, finish, label_axes, with_panels

import schedlang as sl
from paper_rows import simulated
from paper_rows.figure import Figure, Row, Settings, Unit, grouped
from paper_rows.sides import Side, raced
from schedlang.search import TreeSearch

_OPERATORS = ("GMM", "C2D", "DEP", "SFM", "NRM", "TBG")
_TRIALS, _QUICK_TRIALS = 64, 8
_SEEDS = range(3)
WHOLE = "whole space"
# The paper's is 60.
PATIENCE = (15, 30, 60, 120, 240)
_MOST = 1000


def operators(settings: Settings) -> list[Unit]:
    """Return a unit for each operator; one where it is to be quick."""
    names = _OPERATORS[-1:] if settings.quick else _OPERATORS
    return [{"operator": name, "forks": "left out"} for name in names]


def modules_at_work(space: sl.Space, workload: sl.Workload) -> list[str]:
    """Return the modules that record an instruction somewhere in the program, with some seed."""
    visits = [one for seed in _SEEDS for one in space.explain(workload, seed)]
    return [
        module.name
        for module in space
        if any(one.module == module.name and one.instructions for one in visits)
    ]


def forks(unit: Unit, settings: Settings) -> Row:
    """Tune an operator in the whole space, and without each of the modules at work."""
    workload, space = sl.workloads.get(unit["operator"]), sl.default_space()
    trials = _QUICK_TRIALS if settings.quick else _TRIALS
    sides = {WHOLE: Side("auto", trials)}
    for name in modules_at_work(space, workload):
        sides[name] = Side("auto", trials, space=space.without(name))
    return {"sides": raced(workload, sides, unit, settings)}


def show_forks(rows: Sequence[Row]) -> None:
    """Print how much slower the winner is without each module."""
    names = list(dict.fromkeys(name for row in rows for name in row["sides"] if name != WHOLE))
    wide = max(map(len, names)) + 2
    print(f"{'without':{wide}}" + "".join(f"{row['unit']['operator']:>8}" for row in rows))
    for name in names:
        print(f"{name:{wide}}" + "".join(_cell(row, name) for row in rows))
    least = "".join(f"{row['sides'][WHOLE]['latency'] * 1e6:8.1f}" for row in rows)
    print(f"{WHOLE + ', us':{wide}}" + least)


def _cell(row: Row, name: str) -> str:
    sides = row["sides"]
    if name not in sides:
        return f"{'-':>8}"
    return f"{sides[name]['latency'] / sides[WHOLE]['latency']:8.2f}"


def patience(unit: Unit, settings: Settings) -> Row:
    """Tune on a recorded space, once with each patience."""
    path = simulated.path_of(unit, settings)
    return {
        str(most): simulated.tuned(path, unit["seed"], partial(TreeSearch, patience=most), _MOST)
        for most in PATIENCE
    }


def show_patience(rows: Sequence[Row]) -> None:
    """Print trials and slowdown for each patience, for each space."""
    wide = max(len(row["unit"]["space"]) for row in rows) + 2
    columns = [str(most) for most in PATIENCE]
    title = f"\n{'patience':{wide}}" + "".join(f"{most:>8}" for most in columns)
    for what in ("over optimum", "trials"):
        print(f"{title}   {what}")
        for name, mine in [*grouped(rows, "space").items(), ("mean", rows)]:
            print(f"{name:{wide}}" + "".join(f"{_mean(mine, one, what):8.2f}" for one in columns))


def _mean(rows: Sequence[Row], most: str, what: str) -> float:
    mean = statistics.fmean if what == "trials" else statistics.geometric_mean
    return mean(row[most][what] for row in rows)


def draw_patience(rows: Sequence[Row], path: Path) -> None:
    """Draw trials and slowdown over the patience: spaces thin, their mean thick."""
    titles = {"over optimum": "best found over optimum", "trials": "trials until it ends"}
    figure, panels = with_panels([*titles.values()])
    handles: dict[str, Any] = {}
    for panel, what in zip(panels, titles, strict=True):

        def values(mine: Sequence[Row], what: str = what) -> list[float]:
            return [_mean(mine, str(most), what) for most in PATIENCE]

        mean = "mean of all", COLOURS["tree_search"]
        simulated.draw_spaces(panel, PATIENCE, rows, values, handles, mean)
        panel.set_xscale("log")
        label_axes(panel)
    figure.supxlabel("patience: measurements without a gain that end the search")
    finish(figure, handles, path)


FIGURES = (
    Figure(
        "deplodock-forks",
        "deplodock, part 3, its forks left out one by one, really measured",
        operators,
        forks,
        show_forks,
    ),
    Figure(
        "deplodock-patience",
        "deplodock, part 3, patience, on recorded spaces",
        simulated.units,
        patience,
        show_patience,
        draw_patience,
        simulated=True,
    ),
)
