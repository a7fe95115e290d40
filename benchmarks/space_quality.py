"""Measure the quality of the CPU space: the best of 64 random trials, against MetaSchedule's.

Both spaces are drawn from at random: schedlang's by its ``Random`` search, MetaSchedule's (the
default rules and post-processors of the llvm target) by its replay-trace strategy, both without
duplicates. One measurer times both, alternating batch by batch, so that changes in the machine's
state affect both equally. The fastest three of each are then timed alternately; these latencies are
reported, beside torch eager on the same number of threads, whose results are compared with the
winner's. Each figure is the median over the seeds; the ratio is MetaSchedule's latency over
schedlang's.

Targets: ratio at least 1.25 (geometric mean), none below 0.95.

``--odd`` measures efficiency instead: odd shapes against similar shapes with many divisors. Needs
the ``bench`` extra.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from _contest import (
    WORKLOADS,
    Contestant,
    Winner,
    compete,
    draw_from,
    median,
    ratio,
    show,
    summarise,
)
from _efficiency import ODD_PAIRS, report_odd
from _metaschedule_space import draw_from_metaschedule
from _results import store

import schedlang as sl
from schedlang.bench import torch_operators
from schedlang.targets import LocalCPU, build_callable

OURS, THEIRS, TORCH = "schedlang", "MetaSchedule", "torch"
SIDES = (OURS, THEIRS)
_WARM_UP_SEED = 1 << 40


def compare(name: str, trials: int, seeds: Sequence[int]) -> dict[str, Any]:
    """One row: winners' latencies in seconds by seed, their medians, and where the time went."""
    target = sl.Target("cpu")
    workload = sl.workloads.get(name)
    latencies: dict[str, list[float | None]] = {side: [] for side in (*SIDES, TORCH)}
    contestants: dict[str, list[Contestant]] = {side: [] for side in SIDES}
    eager = None
    if torch_operators.available():
        eager = torch_operators.TorchOperator(workload, target.cores)
    with LocalCPU(workload, target) as measurer:
        # Start the workers before timing: a run pays that once.
        first = draw_from(sl.default_space(target), workload, _WARM_UP_SEED)(target.cores)
        list(measurer.measure([sl.Candidate(-n, module) for n, module in enumerate(first, 1)]))
        for seed in seeds:
            pair = {
                OURS: Contestant(draw_from(sl.default_space(target), workload, seed)),
                THEIRS: Contestant(draw_from_metaschedule(workload, target, seed)),
            }
            winners = compete(measurer, pair, trials)
            for side in SIDES:
                contestants[side].append(pair[side])
                latencies[side].append(winners[side].latency if side in winners else None)
            latencies[TORCH].append(None if eager is None else eager.latency())
    if eager is not None:
        _check(name, eager, workload, winners, target)
    middle = {side: median(values) for side, values in latencies.items()}
    return {
        "workload": name,
        "latency": middle,
        "ratio": ratio(middle[THEIRS], middle[OURS]),
        "torch ratio": ratio(middle[TORCH], middle[OURS]),
        "latency by seed": latencies,
        "wall": {side: _totals(contestants[side]) for side in SIDES},
    }


def _check(
    name: str,
    eager: torch_operators.TorchOperator,
    workload: sl.Workload,
    winners: dict[str, Winner],
    target: sl.Target,
) -> None:
    """Raise SystemExit unless torch's results agree with those of a verified program."""
    winner = winners.get(OURS) or winners.get(THEIRS)
    module = workload.mod if winner is None else winner.module
    if (reason := eager.mismatch(build_callable(module, target))) is not None:
        raise SystemExit(f"{name}: torch computes something else: {reason}")


def _totals(contestants: Sequence[Contestant]) -> dict[str, Any]:
    """Return seconds per trial and failures over all runs of one side."""
    trials = sum(one.trials for one in contestants)
    failures: Counter[str] = sum((one.failures for one in contestants), Counter())
    return {
        "trials": trials,
        "draw seconds": sum(one.draw_seconds for one in contestants) / max(trials, 1),
        "measure seconds": sum(one.measure_seconds for one in contestants) / max(trials, 1),
        "failures": dict(failures),
    }


def report_quality(names: Sequence[str], trials: int, seeds: Sequence[int]) -> dict[str, Any]:
    """Print and return both tables: latencies, then wall time and failures."""
    rows = []
    print(
        f"          best of {trials}, median of {len(seeds)} (us)               latency over ours"
    )
    print("workload   schedlang  MetaSchedule      torch    MetaSchedule  torch")
    for name in names:
        row = compare(name, trials, seeds)
        rows.append(row)
        shown = row["latency"]
        print(
            f"{name:8} {show(shown[OURS], 11, 1, 1e6)} {show(shown[THEIRS], 13, 1, 1e6)} "
            f"{show(shown[TORCH], 10, 1, 1e6)} {show(row['ratio'], 15)} "
            f"{show(row['torch ratio'], 6)}",
            flush=True,
        )
    mean, worst = summarise([row["ratio"] for row in rows])
    torch_mean, _ = summarise([row["torch ratio"] for row in rows])
    print(
        f"geometric mean {show(mean, 0)} (target 1.25), lowest {show(worst, 0)} (target 0.95); "
        f"torch {show(torch_mean, 0)}"
    )
    print()
    print_wall_times(rows)
    return {
        "geomean_ratio": mean,
        "worst_ratio": worst,
        "torch_geomean_ratio": torch_mean,
        "trials": trials,
        "seeds": list(seeds),
        "rows": rows,
    }


def print_wall_times(rows: Sequence[dict[str, Any]]) -> None:
    """Print, for both, seconds per trial for drawing and measuring, and the failures."""
    print("          seconds per trial, drawing + measuring")
    print("workload       schedlang    MetaSchedule   failures (trials)")
    for row in rows:
        times, failed = [], []
        for side in SIDES:
            wall = row["wall"][side]
            times.append(f"{wall['draw seconds']:.3f} + {wall['measure seconds']:.3f}")
            reasons = ", ".join(f"{n} {status}" for status, n in sorted(wall["failures"].items()))
            failed.append(f"{side} {reasons or 0} ({wall['trials']})")
        print(f"{row['workload']:8} {times[0]:>15} {times[1]:>15}   {'; '.join(failed)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="8 trials of two workloads, one seed")
    parser.add_argument("--workloads", nargs="+", metavar="NAME", help="all by default")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--odd", action="store_true", help="shapes with poor divisors")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    names, seeds = arguments.workloads or WORKLOADS, arguments.seeds
    trials, pairs = arguments.trials, ODD_PAIRS
    if arguments.quick:
        names = arguments.workloads or ["GMM", "SFM"]
        seeds, trials, pairs = seeds[:1], 8, pairs[:1]
    if arguments.odd:
        summary = {"odd": report_odd(pairs, trials, seeds)}
    else:
        summary = report_quality(names, trials, seeds)
    if arguments.json:
        store(summary, arguments.json)


if __name__ == "__main__":
    main()
