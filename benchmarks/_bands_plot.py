"""Plot how far searches are from the optimum of recorded spaces, with one panel per space."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _race_plot import COLOURS, LABELS, finish, label_axes, with_panels


def points(trials: int) -> list[int]:
    """Return the numbers of trials at which curves have points, about three for each doubling."""
    steps = range(3 * math.ceil(math.log2(trials)) + 1)
    return sorted({*(round(2 ** (step / 3)) for step in steps if 2 ** (step / 3) < trials), trials})


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the figure: medians as lines, half of the runs as bands.

    Each row has ``band``: for each number of trials the quartiles of the slowdown.
    """
    names = list(dict.fromkeys(row["space"] for row in rows))
    figure, panels = with_panels(names)
    handles: dict[str, Any] = {}
    for panel, name in zip(panels, names, strict=True):
        mine = {row["search"]: row["band"] for row in rows if row["space"] == name}
        for search in (one for one in COLOURS if one in mine):
            at = [int(number) for number in mine[search]]
            low, middle, high = zip(*mine[search].values(), strict=True)
            (line,) = panel.plot(at, middle, color=COLOURS[search], linewidth=1.6)
            panel.fill_between(at, low, high, color=COLOURS[search], alpha=0.15, linewidth=0)
            handles.setdefault(LABELS.get(search, search), line)
        panel.set_xscale("log")
        panel.set_ylim(0.99, 1.8)
        label_axes(panel)
    figure.supxlabel("trials")
    figure.supylabel("best so far over optimum")
    finish(figure, handles, path)
