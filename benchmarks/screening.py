"""Measure the cost of the evolutionary search at 64 trials a round, with and without screening.

With ``screening``, ``Evolutionary`` scores the decisions of a mutation with a second, cheap model
before it builds the program. It runs with and without screening, for 256 trials in rounds of 64.
The best three programs of both are then timed alternately. The share is the fraction of wall time
that the search and its models take.

Target: a share of at most 0.25 (median over the runs with screening). Ratios are the figure without
screening over the figure with it: above 1, screening helps.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from _contest import median, ratio, show, summarise
from _race import hold_finals, tune_schedlang
from _race_figures import own_share
from _results import store

import schedlang as sl
from schedlang.search import Evolutionary

NAMES = ("GMM", "C2D", "DEP", "SFM")
SIDES = {"with": True, "without": False}
ROUND = 64


def compare(name: str, seed: int, trials: int) -> dict[str, Any]:
    """One row: latencies in the finals, wall times and shares of the search, by side."""
    workload = sl.workloads.get(name)
    runs = {
        side: tune_schedlang(
            workload, partial(Evolutionary, screening=screening), trials, seed, batch=ROUND
        )
        for side, screening in SIDES.items()
    }
    standing = hold_finals(
        workload, sl.Target("cpu"), {side: run.fastest(trials) for side, run in runs.items()}
    )
    latency = {side: standing.latencies.get(side) for side in runs}
    seconds = {side: run.seconds for side, run in runs.items()}
    return {
        "workload": name,
        "seed": seed,
        "latency": latency,
        "seconds": seconds,
        "share": {side: own_share(run.split, run.seconds) for side, run in runs.items()},
        "split": {side: dict(run.split) for side, run in runs.items()},
        "error": {side: run.error for side, run in runs.items() if run.error},
        "quality ratio": ratio(latency["without"], latency["with"]),
        "time ratio": ratio(seconds["without"], seconds["with"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one workload, 128 trials")
    parser.add_argument("--workloads", nargs="+", metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--json", type=Path, help="write the figures here, after each row")
    arguments = parser.parse_args()
    names = arguments.workloads or (NAMES[:1] if arguments.quick else NAMES)
    trials = 2 * ROUND if arguments.quick else 4 * ROUND
    print(f"{trials} trials in rounds of {ROUND}, with screening and without")
    print("workload  seed   latency (us)         seconds            share of search")
    rows: list[dict[str, Any]] = []
    summary: dict[str, Any] = {}
    for name in names:
        for seed in arguments.seeds:
            row = compare(name, seed, trials)
            rows.append(row)
            cells = [show(row["latency"][side], 9, 1, 1e6) for side in SIDES]
            cells += [show(row["seconds"][side], 9, 1) for side in SIDES]
            cells += [show(row["share"][side], 9) for side in SIDES]
            print(f"{name:8} {seed:5}", *cells, flush=True)
            summary = {
                "share": median(one["share"]["with"] for one in rows),
                "quality_ratio": summarise([one["quality ratio"] for one in rows])[0],
                "time_ratio": summarise([one["time ratio"] for one in rows])[0],
                "trials": trials,
                "round": ROUND,
                "target": sl.Target("cpu").key,
                "rows": rows,
            }
            if arguments.json:
                store(summary, arguments.json)
    print(
        f"median share of the search {show(summary['share'], 0)} (target 0.25); without screening "
        f"over with it: latency {show(summary['quality_ratio'], 0)}, "
        f"time {show(summary['time_ratio'], 0)}"
    )


if __name__ == "__main__":
    main()
