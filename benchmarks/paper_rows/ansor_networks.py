"""Ansor, Figure 10 and Table 2: what the task scheduler is worth, and its objectives.

Figure 10 is the tuning curve of a network, with a part of the system left out: the scheduler (each
task gets as many trials), fine-tuning (independent draws take the place of ``Evolutionary``), or
the large space (one structure; see ``ansor_ablation.py``). Table 2 defines objectives: here two
networks are tuned together with each of them, and the same trials.

All is really measured; latencies are those of the tasks' best programs, as the runs measured them,
each as often as the network calls it.
"""

from __future__ import annotations

import math
import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from _race_plot import COLOURS, finish, with_panels
from network_rows.models import make
from network_rows.our_sides import imported

import schedlang as sl
from paper_rows.ansor_ablation import limited_space
from paper_rows.figure import Figure, Row, Settings, Unit, database_of, grouped
from schedlang import modules
from schedlang.search import Evolutionary, MakeStrategy, Random
from schedlang.search.tasks import TaskProgress, make_scheduler, network_latencies

NETWORKS, _QUICK_NETWORKS = ("mobilenet-v2", "bert-2"), ("dcgan",)
TOGETHER, _QUICK_TOGETHER = ("mobilenet-v2", "dcgan"), ("perceptron", "dcgan")
TRIALS, _QUICK_TRIALS = 600, 40
_SHOWN = (100, 200, 300, 600)
PATIENCE = 32
"""Trials without a gain after which a task gets no more (Table 2, f4)."""


@dataclass(frozen=True)
class Variant:
    """A search, a scheduler, whether the space is the default one, and a colour."""

    search: MakeStrategy
    scheduler: str
    whole: bool
    colour: str


FULL = "full"
VARIANTS: Mapping[str, Variant] = {
    FULL: Variant(Evolutionary, "gradient", True, COLOURS["auto"]),
    "no task scheduler": Variant(Evolutionary, "equal_split", True, COLOURS["evolutionary"]),
    "no fine-tuning": Variant(Random, "gradient", True, COLOURS["coordinate_descent"]),
    "limited space": Variant(Evolutionary, "gradient", False, COLOURS["explore_exploit"]),
}
# Table 2's f1, f3, f2 and f4. For f2 the first network need only reach 1.5 times the latency that
# it has with f1, and the second half of it, which is out of reach: so it should get the trials.
OBJECTIVES = ("latency", "speedup", "requirements", "patience")
_REQUIRED = (1.5, 0.5)


class Recorded:
    """A scheduler that keeps the latency of all networks together after each slice.

    Attributes
    ----------
    curve: (trials of all tasks, seconds of all calls), from where each task has had a slice.
    """

    def __init__(self, name: str, seed: int) -> None:
        self.name = name
        self._scheduler = make_scheduler(name, seed=seed)
        self.curve: list[tuple[int, float]] = []

    def next(self, progress: Sequence[TaskProgress]) -> int | None:
        """Return what the scheduler says."""
        latency = sum(network_latencies(progress))
        if not math.isnan(latency):
            self.curve.append((sum(task.trials for task in progress), latency))
        return self._scheduler.next(progress)


@cache
def network(name: str) -> sl.Network:
    """Import a network, once."""
    return imported(make(name))


def curve_units(settings: Settings) -> list[Unit]:
    """Return a unit for each run of each variant; the variants take turns."""
    seeds = range(1 if settings.quick else settings.seeds)
    names = _QUICK_NETWORKS if settings.quick else NETWORKS
    return [
        {"network": name, "variant": variant, "seed": seed}
        for name in names
        for seed in seeds
        for variant in VARIANTS
    ]


def curve(unit: Unit, settings: Settings) -> Row:
    """Tune a network from nothing; return its latency in seconds by the number of trials."""
    target, variant = sl.Target("cpu"), VARIANTS[unit["variant"]]
    limited = [modules.auto_inline(), *limited_space(target)]
    scheduler = Recorded(variant.scheduler, unit["seed"])
    result = sl.tune_network(
        network(unit["network"]),
        target,
        space=None if variant.whole else sl.Space(limited, name="limited"),
        search=variant.search,
        scheduler=scheduler,
        trials=_QUICK_TRIALS if settings.quick else TRIALS,
        seed=unit["seed"],
        progress=False,
        finals=0,  # a curve has what the trials measured
    )
    return {
        "curve": [*scheduler.curve, (result.trials, result.latency)],
        "complete": result.complete,
        "seconds": result.seconds,
        "trials of tasks": [task.trials for task in result.tasks],
    }


def latency_at(points: Sequence[Sequence[float]], trials: int) -> float:
    """Return the latency as of ``trials`` trials; infinity before all tasks have one."""
    number = bisect_right([count for count, _ in points], trials)
    return points[number - 1][1] if number else math.inf


def by_trials(rows: Sequence[Row]) -> dict[str, list[tuple[int, float]]]:
    """Return the median latency of each variant's runs on a network, by the number of trials."""
    found = {}
    for variant, mine in grouped(rows, "variant").items():
        trials = sorted({int(count) for row in mine for count, _ in row["curve"]})
        medians = [statistics.median(latency_at(row["curve"], at) for row in mine) for at in trials]
        found[variant] = [one for one in zip(trials, medians, strict=True) if one[1] < math.inf]
    return found


def show_curves(rows: Sequence[Row]) -> None:
    """Print a line for each variant: its latency over the best of all, by trials."""
    last = max(row["curve"][-1][0] for row in rows)
    shown = [one for one in _SHOWN if one < last] + [last]
    for name, mine in grouped(rows, "network").items():
        found = by_trials(mine)
        best = min(points[-1][1] for points in found.values())
        print(f"\n{name}: latency over that of the best, {best * 1e3:.2f} ms, by trials")
        print(f"{'':20}" + "".join(f"{one:>8}" for one in shown) + f"{'s/run':>8}")
        for variant, points in found.items():
            told = "".join(f"{latency_at(points, at) / best:8.3f}" for at in shown)
            seconds = statistics.fmean(row["seconds"] for row in grouped(mine, "variant")[variant])
            print(f"{variant:20}{told}{seconds:8.0f}")


def draw_curves(rows: Sequence[Row], path: Path) -> None:
    """Draw the latency of each variant over trials, a panel for each network."""
    networks = grouped(rows, "network")
    figure, panels = with_panels(list(networks))
    handles: dict[str, Any] = {}
    for panel, mine in zip(panels, networks.values(), strict=True):
        found = by_trials(mine)
        best = min(points[-1][1] for points in found.values())
        for variant, points in found.items():
            (handles[variant],) = panel.step(
                [trials for trials, _ in points],
                [best / latency for _, latency in points],
                where="post",
                color=VARIANTS[variant].colour,
                linewidth=2.2 if variant == FULL else 1.5,
            )
        panel.set_ylim(0, 1.05)
        panel.grid(color="#dddddd", linewidth=0.6)
    figure.supxlabel("trials measured, of all tasks")
    figure.supylabel("relative speed of the network")
    finish(figure, handles, path)


def objective_units(settings: Settings) -> list[Unit]:
    """Return a unit for each objective."""
    return [{"objective": name} for name in OBJECTIVES]


def objective(unit: Unit, settings: Settings) -> Row:
    """Tune two networks together; return what each has come to, and what it was given."""
    result = _tuned(unit["objective"], settings)
    count = range(len(result.networks))
    return {
        "networks": [one.name for one in result.networks],
        "latencies": list(result.latencies),
        "unscheduled": list(result.reference_latencies),
        "trials": [sum(task.trials for task in result.tasks if task.weights[i]) for i in count],
        "seconds": result.seconds,
        "finished": result.finished,
    }


def _tuned(name: str, settings: Settings) -> sl.NetworkResult:
    """Tune with an objective; where that is done, read the result from its database."""
    given: dict[str, Any] = {"objective": name}
    if name == "patience":
        given = {"patience": PATIENCE}
    elif name == "requirements":
        latencies = _tuned("latency", settings).latencies
        pairs = zip(_REQUIRED, latencies, strict=True)
        given["limits"] = [part * latency for part, latency in pairs]
    return sl.tune_network(
        [network(one) for one in (_QUICK_TOGETHER if settings.quick else TOGETHER)],
        "cpu",
        trials=_QUICK_TRIALS if settings.quick else TRIALS,
        database=database_of({"figure": "objectives", "objective": name}, settings),
        progress=False,
        finals=0,  # each is what its trials measured
        **given,
    )


def show_objectives(rows: Sequence[Row]) -> None:
    """Print a line for each objective: latency and trials of both networks."""
    names = rows[0]["networks"]
    print(f"\n{'ms; trials':16}" + "".join(f"{one:>24}" for one in names) + f"{'s':>8}  ended")
    for row in rows:
        pairs = zip(row["latencies"], row["trials"], strict=True)
        told = "".join(f"{latency * 1e3:17.3f};{trials:6}" for latency, trials in pairs)
        print(f"{row['unit']['objective']:16}{told}{row['seconds']:8.0f}  {row['finished']}")


FIGURES = (
    Figure(
        "ansor-curve",
        "Ansor, Figure 10: the tuning curve of networks, with parts left out",
        curve_units,
        curve,
        show_curves,
        draw_curves,
    ),
    Figure(
        "ansor-objectives",
        "Ansor, Table 2: the objectives of the task scheduler, on two networks",
        objective_units,
        objective,
        show_objectives,
    ),
)
