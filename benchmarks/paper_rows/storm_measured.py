"""Explore as a Storm, Figures 10 and 11, really measured on whole spaces.

K programs are explored and one descent follows, against 10,000 trials of the exploring search
alone: what recorded spaces cannot show, as 10,000 trials measure all of their programs. An operator
takes an hour or so on two cores, nearly all of it the 10,000 trials; interrupted, it goes on.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _race_plot import finish, label_axes, with_panels

import schedlang as sl
from paper_rows.figure import Figure, Row, Settings, Unit
from paper_rows.sides import TO_THE_END, Side, descent_after, raced
from paper_rows.storm import EXPLORED, MOST

# A matrix product, a convolution, and a reduction.
_OPERATORS = ("GMM", "C2D", "SFM")
_QUICK_MOST, _QUICK_EXPLORED = 32, (1, 8)
ALONE = "alone"


def units(settings: Settings) -> list[Unit]:
    """Return a unit for each operator; one where it is to be quick."""
    names = _OPERATORS[:1] if settings.quick else _OPERATORS
    return [{"operator": name, "storm": "budgets"} for name in names]


def budgets(unit: Unit, settings: Settings) -> Row:
    """Tune with each K and a descent, and with exploration alone."""
    most, explored = (_QUICK_MOST, _QUICK_EXPLORED) if settings.quick else (MOST, EXPLORED)
    more = _QUICK_MOST if settings.quick else TO_THE_END
    sides = {str(one): Side(descent_after(one), one + more) for one in explored}
    sides[ALONE] = Side("evolutionary", most)
    return {"sides": raced(sl.workloads.get(unit["operator"]), sides, unit, settings)}


def show(rows: Sequence[Row]) -> None:
    """Print the ratio of 10,000 trials to K and a descent: above 1 supports the paper."""
    explored = [name for name in rows[0]["sides"] if name != ALONE]
    for what in ("latency", "seconds"):
        print(f"\n{what} of exploring alone / of K and a descent")
        print(f"{'K':16}" + "".join(f"{number:>8}" for number in explored))
        lines = [[_ratio(row, number, what) for number in explored] for row in rows]
        for row, line in zip(rows, lines, strict=True):
            print(f"{row['unit']['operator']:16}" + "".join(f"{one:8.3f}" for one in line))
        mean = [statistics.geometric_mean(column) for column in zip(*lines, strict=True)]
        print(f"{'geometric mean':16}" + "".join(f"{one:8.3f}" for one in mean))
    print("\ntrials of the descent")
    for row in rows:
        line = [row["sides"][number]["trials"] - int(number) for number in explored]
        print(f"{row['unit']['operator']:16}" + "".join(f"{one:8}" for one in line))


def _ratio(row: Row, number: str, what: str) -> float:
    return float(row["sides"][ALONE][what] / row["sides"][number][what])


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw latency and time of all sides, a panel for each operator."""
    figure, panels = with_panels([row["unit"]["operator"] for row in rows])
    handles: dict[str, Any] = {}
    for panel, row in zip(panels, rows, strict=True):
        for name, side in row["sides"].items():
            alone = name == ALONE
            title = "exploring alone" if alone else "K programs and a descent"
            colour, marker = ("#0072B2", "s") if alone else ("#CC79A7", "o")
            handles[title] = panel.scatter(
                side["seconds"], side["latency"] * 1e6, color=colour, marker=marker
            )
            if not alone:
                panel.annotate(
                    name,
                    (side["seconds"], side["latency"] * 1e6),
                    xytext=(4, 4),
                    textcoords="offset points",
                    fontsize=8,
                )
        panel.set_xscale("log")
        label_axes(panel)
    figure.supxlabel("seconds of the search")
    figure.supylabel("latency (us)")
    finish(figure, handles, path)


FIGURES = (
    Figure(
        "storm-measured",
        "Explore as a Storm, Figures 10 and 11, really measured",
        units,
        budgets,
        show,
        draw,
    ),
)
