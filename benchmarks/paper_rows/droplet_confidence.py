"""Droplet Search, Figure 12: the level of the test that a neighbour is faster.

One descent from the origin, until it converges, at five levels; "no p-value" is a level of 0.5, at
which the one-sided test compares the means. The paper tests three samples of each program. A
recorded program has up to 15, with which even small differences are significant, so each descent
runs twice: with three samples that are drawn from the recorded ones, and with all of them.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from paper_rows.descent import ONCE
from paper_rows.figure import Figure, Row, Settings, Unit
from paper_rows.simulated import path_of, print_ratios, tuned, units
from schedlang.measurement import Candidate, Measurement, SimulatedMeasurer
from schedlang.search import CoordinateDescent

LEVELS = {"0.01": 0.01, "0.05": 0.05, "0.10": 0.10, "0.25": 0.25, "none": 0.5}
USUAL = "0.05"
FEW = 3
MOST = 10_000


class FewSamples(SimulatedMeasurer):
    """Gives each program three of its samples, as AutoTVM takes."""

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        for one in super().measure(candidates):
            yield replace(one, samples=one.samples[:FEW])


MEASURERS = {f"{FEW} samples": FewSamples, "all samples": SimulatedMeasurer}


def job(unit: Unit, settings: Settings) -> Row:
    """Descend on a space at each level, with few samples and with all."""
    path, row = path_of(unit, settings), {}
    for (samples, measurer), (name, level) in itertools.product(MEASURERS.items(), LEVELS.items()):
        search = partial(CoordinateDescent, **ONCE, significance=level)
        found = tuned(path, unit["seed"], search, MOST, measurer)
        row[f"{samples}, {name}"] = found
    return row


def show(rows: Sequence[Row]) -> None:
    """Print latency, seconds and trials at each level, over those at 0.05."""
    for samples in MEASURERS:
        usual = f"{samples}, {USUAL}"
        columns = {name: (f"{samples}, {name}", usual) for name in LEVELS}
        for what in ("latency", "seconds", "trials"):
            print_ratios(rows, columns, what, f"{samples}: {what} / {what} at {USUAL}")
        print(f"\n{samples}, mean over all: trials, and latency over the optimum")
        for name, (of, _) in columns.items():
            trials = statistics.fmean(row[of]["trials"] for row in rows)
            over = statistics.geometric_mean(row[of]["over optimum"] for row in rows)
            print(f"{name:8}{trials:8.1f}{over:8.3f}")


FIGURES = (
    Figure(
        "droplet-confidence",
        "Droplet Search, Figure 12, on recorded spaces",
        units,
        job,
        show,
        simulated=True,
    ),
)
