"""Plot how far searches are from the optimum of recorded spaces, with one panel per space."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from _race_plot import COLOURS, LABELS, label_axes

_COLUMNS = 4


def points(trials: int) -> list[int]:
    """Return the numbers of trials at which curves have points, about three for each doubling."""
    steps = range(3 * math.ceil(math.log2(trials)) + 1)
    return sorted({*(round(2 ** (step / 3)) for step in steps if 2 ** (step / 3) < trials), trials})


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write the figure: medians as lines, half of the runs as bands.

    Each row has ``band``: for each number of trials the quartiles of the slowdown.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(row["space"] for row in rows))
    columns = min(_COLUMNS, len(names))
    lines = math.ceil(len(names) / columns)
    figure, axes = plt.subplots(
        lines,
        columns,
        figsize=(1.0 + 3.6 * columns, 2.9 * lines + 0.8),
        squeeze=False,
        layout="constrained",
    )
    handles: dict[str, Any] = {}
    for panel, name in zip(axes.flatten(), names, strict=False):
        mine = {row["search"]: row["band"] for row in rows if row["space"] == name}
        for search in (one for one in COLOURS if one in mine):
            at = [int(number) for number in mine[search]]
            low, middle, high = zip(*mine[search].values(), strict=True)
            (line,) = panel.plot(at, middle, color=COLOURS[search], linewidth=1.6)
            panel.fill_between(at, low, high, color=COLOURS[search], alpha=0.15, linewidth=0)
            handles.setdefault(LABELS.get(search, search), line)
        panel.set_title(name)
        panel.set_xscale("log")
        panel.set_ylim(0.99, 1.8)
        label_axes(panel)
    for panel in axes.flatten()[len(names) :]:
        panel.set_visible(False)
    figure.supxlabel("trials")
    figure.supylabel("best so far over optimum")
    figure.legend(
        handles.values(), handles, loc="outside upper center", ncols=2 * columns, frameon=False
    )
    figure.savefig(path, dpi=110)
    plt.close(figure)
