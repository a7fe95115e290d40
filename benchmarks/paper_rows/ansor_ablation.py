"""Ansor, Figure 7: what the large space and fine-tuning are worth, on a convolution of ResNet-50.

The convolution is one of the last of ResNet-50: 512 channels of 7 x 7, 3 x 3, batch 1. The paper
takes batch 16, on ten times the cores. Variants:

* ``full``: ``Evolutionary``, whose chains change complete programs, in the default space;
* ``beam search``: the same space, drawn decision by decision; a model of complete programs prunes
  the incomplete ones, and nothing is changed afterwards (``_beam_search.py``);
* ``no fine-tuning``: independent draws from the default space;
* ``limited space``: ``Evolutionary`` in a space with one structure, as a template has: the tiles
  SSRSRS, no cache for the result, padding computed ahead.

All is really measured. A curve is the median over the runs of the best latency so far.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from _beam_search import BeamSearch
from _race_plot import COLOURS, finish, median_curve, with_panels

import schedlang as sl
from paper_rows.figure import Figure, Row, Settings, Unit, database_of, grouped
from schedlang import modules
from schedlang.search import Evolutionary, MakeStrategy, Random

_SHAPE, _QUICK_SHAPE = (7, 7, 512, 512, 3, 1, 1), (7, 7, 64, 64, 3, 1, 1)
TRIALS, _QUICK_TRIALS = 250, 25
_SHOWN = (25, 50, 100, 250)


def limited_space(target: sl.Target) -> sl.Space:
    """Return a space with one structure, whose numbers alone are drawn."""
    lanes = target.lanes(32)
    return sl.Space(
        [
            modules.multi_level_tiling(structure="SSRSRS", write_levels=(), vector_lanes=lanes),
            modules.parallel_vectorize_unroll(cores=target.cores, max_lanes=4 * lanes),
        ],
        name="limited",
    )


@dataclass(frozen=True)
class Variant:
    """A search in a space, and its colour in the picture."""

    search: MakeStrategy
    space: Callable[[sl.Target], sl.Space]
    colour: str


VARIANTS: Mapping[str, Variant] = {
    "full": Variant(Evolutionary, sl.default_space, COLOURS["auto"]),
    "beam search": Variant(BeamSearch, sl.default_space, COLOURS["evolutionary"]),
    "no fine-tuning": Variant(Random, sl.default_space, COLOURS["coordinate_descent"]),
    "limited space": Variant(Evolutionary, limited_space, COLOURS["explore_exploit"]),
}


def units(settings: Settings) -> list[Unit]:
    """Return a unit for each run of each variant; the variants take turns."""
    seeds = range(1 if settings.quick else settings.seeds)
    return [{"variant": name, "seed": seed} for seed in seeds for name in VARIANTS]


def job(unit: Unit, settings: Settings) -> Row:
    """Tune; return the trials at which the best so far changed, with its latency in seconds."""
    target, variant = sl.Target("cpu"), VARIANTS[unit["variant"]]
    result = sl.tune(
        sl.workloads.C2D(*(_QUICK_SHAPE if settings.quick else _SHAPE)),
        target,
        space=variant.space(target),
        search=variant.search,
        trials=_QUICK_TRIALS if settings.quick else TRIALS,
        seed=unit["seed"],
        transfer=False,
        progress=False,
        finals=0,  # a curve has what the trials measured
        database=database_of({"figure": "ablation"} | unit, settings),
    )
    best, curve = float("inf"), []
    for number, record in enumerate(result.records, 1):
        if record.ok and record.latency < best:
            best = record.latency
            curve.append([number, best])
    return {
        "curve": curve,
        "trials": len(result.records),
        "failed": sum(not one.ok for one in result.records),
        "seconds": result.seconds,
        "time split": dict(result.time_split),
    }


def curves(rows: Sequence[Row]) -> dict[str, tuple[list[float], list[float]]]:
    """Return trials and median throughput of each variant, over that of the best program of all."""
    optimum = min(map(best_of, rows))
    found = {}
    for name, mine in grouped(rows, "variant").items():
        # A run keeps its best to the end.
        ended = [[*row["curve"], [row["trials"], best_of(row)]] for row in mine]
        points = [[(trial, 0.0, latency) for trial, latency in curve] for curve in ended]
        trials, latencies = median_curve(points, over_time=False)
        found[name] = trials, [optimum / latency for latency in latencies]
    return found


def best_of(row: Row) -> float:
    """Return the latency of the best program of a run, in seconds."""
    return float(row["curve"][-1][1])


def show(rows: Sequence[Row]) -> None:
    """Print a line for each variant: throughput by trials, and at the end by run."""
    optimum = min(map(best_of, rows))
    shown = [one for one in _SHOWN if one <= max(row["trials"] for row in rows)]
    print(f"throughput over that of the best program, {optimum * 1e6:.0f} us, by trials\n")
    heads = "".join(f"{one:>8}" for one in shown)
    print(f"{'median of runs':16}{heads}{'lowest':>10}{'highest':>9}{'failed':>8}{'s/run':>8}")
    found, rows_of = curves(rows), grouped(rows, "variant")
    for name, (trials, throughput) in found.items():
        told = [throughput[bisect_right(trials, one) - 1] for one in shown]
        ends = [optimum / best_of(row) for row in rows_of[name]]
        failed, seconds = (
            statistics.fmean(row[key] for row in rows_of[name]) for key in ("failed", "seconds")
        )
        print(
            f"{name:16}{''.join(f'{one:8.3f}' for one in told)}"
            f"{min(ends):10.3f}{max(ends):9.3f}{failed:8.1f}{seconds:8.0f}"
        )


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the median throughput of each variant over trials."""
    figure, (panel,) = with_panels(["a convolution of ResNet-50, median of the runs"])
    handles: dict[str, Any] = {}
    for name, (trials, throughput) in curves(rows).items():
        colour, width = VARIANTS[name].colour, 2.2 if name == "full" else 1.5
        (handles[name],) = panel.step(
            trials, throughput, where="post", color=colour, linewidth=width
        )
    panel.set_ylim(0, 1.05)
    panel.grid(color="#dddddd", linewidth=0.6)
    panel.set_xlabel("trials measured")
    panel.set_ylabel("relative throughput")
    finish(figure, handles, path)


FIGURES = (
    Figure(
        "ansor-ablation",
        "Ansor, Figure 7: four variants on a convolution of ResNet-50",
        units,
        job,
        show,
        draw,
    ),
)
