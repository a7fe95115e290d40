"""What ``default_schedule`` reaches without measuring, beside no schedule and beside tuning.

For each program: the time that making the default takes, and the latencies of the unscheduled
program, of the default and of the best of ``tune`` with 32 trials. The three are verified, and
timed alternately. ``--networks`` adds the tasks of networks (needs torch, see ``networks.py``).

Targets: at least half of the tuned speed (geometric mean), and faster than without a schedule.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from _contest import WORKLOADS, ratio, show, summarise
from _race import hold_finals
from _results import store

import schedlang as sl

SIDES = ("unscheduled", "default", "tuned")
QUICK = ("GMM", "DEP")


def programs(names: Sequence[str], networks: Sequence[str]) -> Iterator[tuple[str, sl.Workload]]:
    """Yield name and program of each row."""
    for name in names:
        yield name, sl.workloads.get(name)
    for name in networks:
        from network_rows.models import make

        model = make(name)
        for task in sl.import_network(model.module, model.examples).tasks:
            yield f"{name} {task.name}", task.workload


def compare(name: str, workload: sl.Workload, trials: int, target: sl.Target) -> dict[str, Any]:
    """One row: milliseconds for the default, and latencies by side."""
    start = time.perf_counter()
    default = sl.default_schedule(workload, target)
    seconds = time.perf_counter() - start
    tuned = sl.tune(workload, target, trials=trials, progress=False, finals=0)
    entries = {
        "unscheduled": [workload.mod],
        "default": [default.mod],
        "tuned": [tuned.best.schedule.mod],
    }
    standing = hold_finals(workload, target, entries)
    latency = {side: standing.latencies.get(side) for side in SIDES}
    return {
        "name": name,
        "milliseconds": 1e3 * seconds,
        "latency": latency,
        "unscheduled over default": ratio(latency["unscheduled"], latency["default"]),
        "tuned over default": ratio(latency["tuned"], latency["default"]),
        "failures": {side: dict(failed) for side, failed in standing.failures.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two programs, 8 trials")
    parser.add_argument("--workloads", nargs="*", metavar="NAME", help="all by default")
    parser.add_argument("--networks", nargs="*", default=[], metavar="NAME", help="such as bert-2")
    parser.add_argument("--trials", type=int, help="32 by default")
    parser.add_argument("--cores", type=int, help="all; 1 is less disturbed on a shared machine")
    parser.add_argument("--json", type=Path, help="write the figures here, after each program")
    given = parser.parse_args()
    names = QUICK if given.quick else WORKLOADS
    names = names if given.workloads is None else given.workloads
    trials = given.trials or (8 if given.quick else 32)
    target = sl.Target("cpu", cores=given.cores)
    print(f"{'':44} {'ms':>6} {'unscheduled':>12} {'tuned':>6}   (latencies over the default's)")
    rows: list[dict[str, Any]] = []
    for name, workload in programs(names, given.networks):
        row = compare(name, workload, trials, target)
        rows.append(row)
        print(
            f"{name[:44]:44} {show(row['milliseconds'], 6, 0)} "
            f"{show(row['unscheduled over default'], 12)} {show(row['tuned over default'], 6)}",
            *(f"{side}: {failed}" for side, failed in row["failures"].items()),
            flush=True,
        )
        if given.json:
            store({"trials": trials, "rows": rows}, given.json)
    for title, least in (("unscheduled", "1"), ("tuned", "0.5")):
        mean, worst = summarise([row[f"{title} over default"] for row in rows])
        print(f"{title} over default: {show(mean, 0)} (target {least}), lowest {show(worst, 0)}")


if __name__ == "__main__":
    main()
