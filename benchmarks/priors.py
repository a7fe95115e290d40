"""Measure the gain of the CPU space's priors: the best of 32 random draws with and without them.

The same space is sampled twice: with priors derived from the target (vector lanes, registers,
caches, cores), and uniformly. One measurer times both, alternating batch by batch, and then times
the two winners alternately. The ratio is the latency without priors over the latency with them:
above 1 they help. Each figure is the median over the seeds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from _contest import WORKLOADS, Contestant, compete, draw_from, median, ratio, show, summarise
from _results import store

import schedlang as sl
from schedlang.targets import LocalCPU
from schedlang.targets.cpu.target import cpu_space

SPACES = ("with priors", "without")


def compare(name: str, trials: int, seeds: list[int]) -> dict[str, Any]:
    """One row: latencies of a workload's winners by seed, in seconds, and the ratio of medians."""
    target = sl.Target("cpu")
    workload = sl.workloads.get(name)
    spaces = dict(zip(SPACES, (cpu_space(target), cpu_space(target, priors=False)), strict=True))
    latencies: dict[str, list[float | None]] = {side: [] for side in SPACES}
    failures: dict[str, int] = dict.fromkeys(SPACES, 0)
    with LocalCPU(workload, target) as measurer:
        for seed in seeds:
            contestants = {
                side: Contestant(draw_from(space, workload, seed)) for side, space in spaces.items()
            }
            winners = compete(measurer, contestants, trials)
            for side, contestant in contestants.items():
                latencies[side].append(winners[side].latency if side in winners else None)
                failures[side] += contestant.failures.total()
    middle = {side: median(latencies[side]) for side in SPACES}
    return {
        "workload": name,
        "latency": middle,
        "ratio": ratio(middle["without"], middle["with priors"]),
        "latency by seed": latencies,
        "failures": failures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="8 trials of two workloads, one seed")
    parser.add_argument("--workloads", nargs="+", metavar="NAME", help="all by default")
    parser.add_argument("--trials", type=int, default=32)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    names = arguments.workloads or (["GMM", "SFM"] if arguments.quick else WORKLOADS)
    trials = 8 if arguments.quick else arguments.trials
    seeds = arguments.seeds[:1] if arguments.quick else arguments.seeds
    rows = []
    print(f"          best of {trials}, median of {len(seeds)} (us)         failed candidates")
    print("workload  with priors     without   ratio    with   without")
    for name in names:
        row = compare(name, trials, seeds)
        rows.append(row)
        print(
            f"{name:8} {show(row['latency']['with priors'], 12, 1, 1e6)} "
            f"{show(row['latency']['without'], 11, 1, 1e6)} {show(row['ratio'], 7)} "
            f"{row['failures']['with priors']:7} {row['failures']['without']:9}"
        )
    mean, worst = summarise([row["ratio"] for row in rows])
    print(f"geometric mean of the ratios {show(mean, 0)}, lowest {show(worst, 0)}")
    if arguments.json:
        summary = {"geomean_ratio": mean, "worst_ratio": worst, "trials": trials, "rows": rows}
        store(summary, arguments.json)


if __name__ == "__main__":
    main()
