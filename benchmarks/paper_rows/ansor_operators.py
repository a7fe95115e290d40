"""Ansor, Figure 6, against another tuner: 16 of its 80 kernels, beside TVM's MetaSchedule.

``schedlang bench benchmarks/suites/ansor.toml`` sets all 80 beside torch. Of these, 16 drawn at
random are tuned here by ``auto`` and by MetaSchedule, with the suite's trials each; the three
programs that are the fastest in either run are verified, and timed in turns.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from _metaschedule_tuning import tune_metaschedule
from _race import hold_finals, tune_schedlang
from _race_figures import DEFAULT, PEER
from _race_plot import COLOURS

import schedlang as sl
from paper_rows.figure import Figure, Row, Settings, Unit
from schedlang.cli.suite import SuiteKernel, read_suite

SUITE = Path(__file__).parents[1] / "suites" / "ansor.toml"
COUNT, _SEED = 16, 0
_QUICK_KERNEL, _QUICK_TRIALS = "NRM.m256.b1", 8
WITHIN = 1.05
"""A side within 5% of the faster one counts as good as the best."""


@cache
def kernels() -> Mapping[str, SuiteKernel]:
    """Return the kernels of the suite by name."""
    return {one.name: one for one in read_suite(SUITE).kernels}


def units(settings: Settings) -> list[Unit]:
    """Return a unit for each of the kernels that were drawn, in the order of the suite."""
    names = [*kernels()]
    drawn = {_QUICK_KERNEL} if settings.quick else set(random.Random(_SEED).sample(names, COUNT))
    return [{"kernel": name} for name in names if name in drawn]


def job(unit: Unit, settings: Settings) -> Row:
    """Tune with both, and hold finals; latencies and times are in seconds."""
    kernel, target = kernels()[unit["kernel"]], sl.Target("cpu")
    workload = kernel.workload()
    trials = _QUICK_TRIALS if settings.quick else kernel.trials or 0
    runs = {
        DEFAULT: tune_schedlang(workload, DEFAULT, trials, seed=0),
        PEER: tune_metaschedule(workload, target, trials, seed=0),
    }
    standing = hold_finals(
        workload, target, {name: one.fastest(trials) for name, one in runs.items()}
    )
    return {
        name: {
            "latency": standing.latencies.get(name),
            "trials": len(run.trials),
            "seconds": run.seconds,
            "failures": dict(run.failures()),
            "failed in the finals": dict(standing.failures.get(name, {})),
            "error": run.error,
        }
        for name, run in runs.items()
    }


def _ratios(rows: Sequence[Row], what: str) -> list[float]:
    """Return MetaSchedule's latency or seconds over ours; infinity where it has no program."""
    return [
        row[PEER][what] / row[DEFAULT][what] if row[PEER][what] else float("inf") for row in rows
    ]


def show(rows: Sequence[Row]) -> None:
    """Print a line for each kernel, and on how many ours is the best or within 5% of it."""
    print(f"{'us':22}{'schedlang':>11}{'MetaSchedule':>14}{'ratio':>8}{'seconds':>14}{'ratio':>8}")
    latency, seconds = _ratios(rows, "latency"), _ratios(rows, "seconds")
    for row, faster, sooner in zip(rows, latency, seconds, strict=True):
        own, peer = row[DEFAULT], row[PEER]
        found = f"{peer['latency'] * 1e6:14.1f}" if peer["latency"] else f"{'none':>14}"
        print(
            f"{row['unit']['kernel']:22}{own['latency'] * 1e6:11.1f}{found}{faster:8.2f}"
            f"{own['seconds']:7.0f}{peer['seconds']:7.0f}{sooner:8.1f}"
        )
    known = [one for one in latency if one < float("inf")]
    print(
        f"geometric mean: {statistics.geometric_mean(known):.2f} of the latency, "
        f"{statistics.geometric_mean(seconds):.1f} of the seconds; lowest {min(latency):.2f}"
    )
    best = sum(one >= 1 / WITHIN for one in latency)
    print(f"the best, or within 5% of it: {best} of {len(rows)}")


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw the speed of either side relative to the faster one, for each kernel."""
    import matplotlib.pyplot as plt

    figure, panel = plt.subplots(figsize=(9, 0.4 * len(rows) + 1.5), layout="constrained")
    for number, (side, name) in enumerate({DEFAULT: "schedlang", PEER: "MetaSchedule"}.items()):
        speeds = [_speed(row, side) for row in rows]
        places = [place + 0.38 * number for place in range(len(rows))]
        panel.barh(places, speeds, height=0.36, color=COLOURS[side], label=name)
    places = [place + 0.19 for place in range(len(rows))]
    panel.set_yticks(places, [row["unit"]["kernel"] for row in rows])
    panel.invert_yaxis()
    panel.set_xlabel("speed relative to the faster one")
    figure.legend(loc="outside upper center", ncols=2)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _speed(row: Mapping[str, Any], side: str) -> float:
    latencies = [row[one]["latency"] for one in (DEFAULT, PEER) if row[one]["latency"]]
    own = row[side]["latency"]
    return min(latencies) / own if own else 0.0


FIGURES = (
    Figure(
        "ansor-operators",
        "Ansor, Figure 6: 16 of the 80 kernels of ansor.toml, beside MetaSchedule",
        units,
        job,
        show,
        draw,
    ),
)
