"""Ansor, Figure 3: how well a model of complete programs ranks incomplete ones, on recorded spaces.

A recorded space has the latencies of all its programs. ``GradientBoosting`` learns from all but a
few hundred of them. It then ranks those few by the features of the program as it is after the
first part of its trace's instructions, and the order is compared with the latencies of the
complete programs. The paper learns from 20,000 programs and masks fractions of the same ones; here
no program that is ranked was learned from.

An incomplete program from which no features can be extracted counts as slow, as in a search; the
table has their share. At rate 0 all programs are the unscheduled one, and chance decides.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _race_plot import COLOURS, finish, with_panels
from searches import recorded

import schedlang as sl
from paper_rows.figure import Figure, Row, Settings, Unit, grouped
from paper_rows.simulated import draw_spaces, path_of, units
from schedlang.instructions.instruction import Line
from schedlang.lab.recording import line_of
from schedlang.measurement import RecordedSpace
from schedlang.search.cost_model import Example
from schedlang.search.gradient_boosting import GradientBoosting
from schedlang.search.surrogate import pairwise_accuracy, predict_known, recall_at
from schedlang.tvm.analysis.work import Features, statement_features

RATES = tuple(number / 10 for number in range(11))
# The text of the paper does not say its k.
HELD_OUT, BEST = 200, 10
_QUICK_HELD_OUT = 100
_SLOW = 0.0
_MEASURES = {"accuracy": "pairs in the right order", "recall": f"recall of the fastest {BEST}"}


def partial_programs(unit: Unit, settings: Settings) -> Row:
    """Train on most programs of a space; rank the others at each completion rate."""
    start = time.perf_counter()
    found = recorded(path_of(unit, settings))
    model, unseen = trained(found, unit["seed"], _QUICK_HELD_OUT if settings.quick else HELD_OUT)
    lines = lines_of(found, unseen)
    latencies = [found.programs[number].latency for number in unseen]
    row: Row = {"trained on": len(found.programs) - len(unseen), "held out": len(unseen)}
    for rate in RATES:
        tables = features_after(rate, lines, found.workload)
        scores = predict_known(model, tables, _SLOW)
        row[str(rate)] = {
            "accuracy": pairwise_accuracy(scores, latencies),
            "recall": recall_at(BEST, scores, latencies),
            "without features": sum(table is None for table in tables) / len(tables),
        }
    return row | {"seconds": time.perf_counter() - start}


def trained(found: RecordedSpace, seed: int, held_out: int) -> tuple[GradientBoosting, list[int]]:
    """Return a model trained on all programs but some, and the numbers of these."""
    numbers = list(range(len(found.programs)))
    random.Random(seed).shuffle(numbers)
    unseen, seen = numbers[:held_out], numbers[held_out:]
    known = found.space.known_features or {}
    model = GradientBoosting(seed)
    examples = []
    for program in (found.programs[number] for number in seen):
        if (table := known.get(program.key)) is not None:
            latency = program.latency if program.samples else None
            examples.append(Example(table, latency, found.workload.key))
    model.update(examples)
    return model, unseen


def lines_of(found: RecordedSpace, numbers: Sequence[int]) -> list[Line]:
    """Return the instructions that lead to each program."""
    ways = found.ways.first()
    return [line_of(found.ways, ways[number]) for number in numbers]


def features_after(
    rate: float, lines: Sequence[Line], workload: sl.Workload
) -> list[Features | None]:
    """Extract the features after the first ``rate`` of the instructions of each program."""
    parts = [line[: round(rate * len(line))] for line in lines]
    return statement_features([sl.Trace(part, workload).replay().raw for part in parts])


def mean(rows: Sequence[Row], rate: float, measure: str) -> float:
    """Return the mean of a figure over spaces and seeds."""
    return statistics.fmean(row[str(rate)][measure] for row in rows)


def show(rows: Sequence[Row]) -> None:
    """Print a line for each completion rate and measure, by space, then the mean."""
    wide = max(len(row["unit"]["space"]) for row in rows) + 2
    titles = _MEASURES | {"without features": "share of programs without features"}
    for measure, title in titles.items():
        heads = "".join(f"{rate:7.1f}" for rate in RATES)
        print(f"\n{title}, at completion rate\n{'':{wide}}{heads}")
        for name, mine in [*grouped(rows, "space").items(), ("mean", rows)]:
            found = "".join(f"{mean(mine, rate, measure):7.2f}" for rate in RATES)
            print(f"{name:{wide}}{found}")
    counts = [row["trained on"] for row in rows]
    print(f"\ntrained on {min(counts)} to {max(counts)} programs, {rows[0]['held out']} held out")
    print(f"{sum(row['seconds'] for row in rows):.0f} s")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw both measures over the completion rate: spaces thin, their mean thick."""
    figure, panels = with_panels([*_MEASURES.values()])
    handles: dict[str, Any] = {}
    for panel, measure in zip(panels, _MEASURES, strict=True):

        def values(mine: Sequence[Row], measure: str = measure) -> list[float]:
            return [mean(mine, rate, measure) for rate in RATES]

        line = "mean", COLOURS["evolutionary"]
        draw_spaces(panel, RATES, rows, values, handles, line, marker="o")
        chance = mean(rows, 0.0, measure)
        handles["unscheduled: chance"] = panel.axhline(
            chance, color="black", linewidth=0.8, linestyle="--"
        )
        panel.set_xticks(np.linspace(0, 1, 6))
        panel.set_ylim(-0.02, 1.02)
        panel.grid(color="#dddddd", linewidth=0.6)
    figure.supxlabel("completion rate: share of the trace's instructions that were applied")
    finish(figure, handles, path)


FIGURES = (
    Figure(
        "ansor-partial",
        "Ansor, Figure 3, on recorded spaces",
        units,
        partial_programs,
        show,
        draw,
        simulated=True,
    ),
)
