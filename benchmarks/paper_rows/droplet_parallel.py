"""Droplet Search, Figure 16: one descent alone, in parallel, and in parallel with speculation.

What corresponds to the paper's three versions, and what differs:

* serial: one worker, and one proposal at a time.
* parallel: a worker on each core, and as many proposals. A line search goes on as soon as it knows
  a faster neighbour, where the paper waits for the whole neighbourhood.
* speculation: as many proposals as no neighbourhood has, so the neighbours of the point ahead are
  measured too. ``CoordinateDescent`` cannot do without: the parallel version speculates as well
  when fewer neighbours are left than cores.

Workers build at the same time, but run their programs one after another, so that none disturbs the
latency of another; the paper's sixteen threads run theirs together.
"""

from __future__ import annotations

import itertools
import os
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from _race_plot import COLOURS, finish, with_panels

import schedlang as sl
from paper_rows.descent import ONCE
from paper_rows.figure import Figure, Row, Settings, Unit, database_of, grouped
from schedlang.search import CoordinateDescent

CORES = os.cpu_count() or 1
OPERATORS = ("GMM", "C2D", "SFM")
_QUICK_OPERATORS = ("GMM",)
REPEATS = 3
MOST, _QUICK_MOST = 400, 16
EXECUTIONS = 3


@dataclass(frozen=True)
class Version:
    """A version of the descent.

    Attributes
    ----------
    workers: number of programs that are built at the same time.
    pending: maximum number of unmeasured proposals.
    colour: in the picture.
    """

    workers: int
    pending: int
    colour: str


VERSIONS: Mapping[str, Version] = {
    "serial": Version(1, 1, COLOURS["random"]),
    "parallel": Version(CORES, CORES, COLOURS["grid"]),
    "speculation": Version(CORES, 64, COLOURS["evolutionary"]),
}


def units(settings: Settings) -> list[Unit]:
    """Return a unit for each operator and repeat."""
    operators = _QUICK_OPERATORS if settings.quick else OPERATORS
    repeats = range(1 if settings.quick else REPEATS)
    return [
        {"operator": operator, "repeat": repeat}
        for operator, repeat in itertools.product(operators, repeats)
    ]


def descend(name: str, unit: Unit, settings: Settings) -> sl.TuneResult:
    """Descend once from the origin, until no neighbour is faster; goes on where it was."""
    version = VERSIONS[name]
    with sl.measurer("cpu", workers=version.workers) as measurer:
        return sl.tune(
            sl.workloads.standard(unit["operator"])[0],
            search=partial(CoordinateDescent, **ONCE, pending=version.pending),
            trials=_QUICK_MOST if settings.quick else MOST,
            batch=version.pending,
            seed=unit["repeat"],
            database=database_of(unit | {"version": name}, settings),
            transfer=False,
            finals=0,
            measurer=measurer,
            progress=False,
        )


def executions(results: Sequence[sl.TuneResult]) -> list[tuple[float, ...]]:
    """Return the latencies of three executions of each run's best program, taken in turns."""
    workload = results[0].workload
    candidates = [sl.Candidate(n, one.best.schedule.mod) for n, one in enumerate(results)]
    with sl.Target("cpu").measurer(workload) as measurer:
        found = measurer.remeasure(candidates, rounds=EXECUTIONS)
    return [one.samples[:EXECUTIONS] for one in found]


def p_value(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the p-value of Student's two-sided test that the means are equal."""
    from scipy.stats import ttest_ind

    return float(ttest_ind(one, other).pvalue)


def job(unit: Unit, settings: Settings) -> Row:
    """Descend in the three versions, and compare what they found."""
    results = {name: descend(name, unit, settings) for name in VERSIONS}
    samples = dict(zip(VERSIONS, executions([*results.values()]), strict=True))
    row: Row = {
        name: {
            "workers": VERSIONS[name].workers,
            "pending": VERSIONS[name].pending,
            "trials": len(one.records),
            "seconds": one.seconds,
            "finished": one.finished,
            "latency": statistics.median(samples[name]),
            "samples": samples[name],
        }
        for name, one in results.items()
    }
    row["p"] = {
        f"{one}, {other}": p_value(samples[one], samples[other])
        for one, other in itertools.combinations(VERSIONS, 2)
    }
    return row


def _mean(rows: Sequence[Row], name: str, what: str) -> float:
    return statistics.geometric_mean(row[name][what] for row in rows)


def show(rows: Sequence[Row]) -> None:
    """Print the geometric means over the repeats, and the p-values."""
    titles = {"trials": "trials", "seconds": "seconds", "latency": "latency (us)"}
    for what, title in titles.items():
        print(f"\n{title:16}" + "".join(f"{name:>14}" for name in VERSIONS))
        for operator, mine in [*grouped(rows, "operator").items(), ("geometric mean", list(rows))]:
            factor = 1e6 if what == "latency" else 1
            found = (factor * _mean(mine, name, what) for name in VERSIONS)
            print(f"{operator:16}" + "".join(f"{one:14.1f}" for one in found))
    pairs = [*rows[0]["p"]]
    print(f"\n{'p-values':16}" + "".join(f"{pair:>24}" for pair in pairs))
    for row in rows:
        unit = "{operator} {repeat}".format(**row["unit"])
        print(f"{unit:16}" + "".join(f"{row['p'][pair]:24.3f}" for pair in pairs))


def draw(rows: Sequence[Row], path: Path) -> None:
    """Draw trials, seconds and p-values: means as bars, repeats as dots."""
    operators = grouped(rows, "operator")
    figure, panels = with_panels(["trials until it converged", "seconds", "p-value"])
    handles: dict[str, Any] = {}
    for panel, what in zip(panels, ("trials", "seconds"), strict=False):
        for number, (name, version) in enumerate(VERSIONS.items()):
            for place, mine in enumerate(operators.values()):
                x, values = place + 0.27 * (number - 1), [row[name][what] for row in mine]
                mean = _mean(mine, name, what)
                handles[name] = panel.bar(x, mean, width=0.25, color=version.colour)
                panel.plot([x] * len(values), values, "k.", markersize=4)
    for place, mine in enumerate(operators.values()):
        for number, pair in enumerate(rows[0]["p"]):
            values = [row["p"][pair] for row in mine]
            x = [place + 0.27 * (number - 1)] * len(values)
            (dots,) = panels[2].plot(x, values, "osD"[number], markersize=6, color="#D55E00")
            handles[f"p: {pair}"] = dots
    panels[2].axhline(0.05, color="black", linewidth=0.7)
    panels[2].set_ylim(-0.03, 1.03)
    for panel in panels:
        panel.set_xticks(range(len(operators)), [*operators])
    finish(figure, handles, path)


FIGURES = (
    Figure(
        "droplet-parallel",
        "Droplet Search, Figure 16, on operators",
        units,
        job,
        show,
        draw,
    ),
)
