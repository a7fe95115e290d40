"""Measure the cost of measuring: schedlang's measurer against MetaSchedule's, same candidates.

The candidates are drawn uniformly from schedlang's CPU space and given to both in the same order:
schedlang's ``LocalCPU`` with its defaults, and TVM's ``LocalBuilder`` and ``LocalRunner`` with
theirs (which start processes, write archives and link them). Both use one thread per core of the
target. Starting their processes is not timed. They alternate batch by batch, so that changes in the
machine's state affect both equally.

Reported for each workload: wall time per candidate of both, their ratio, and rank correlations
(Spearman) over the faster half, from several passes over the same candidates:

* between the two measurers, one pass of each, and between their medians over all passes;
* between consecutive passes of one measurer: an upper bound for the agreement of two measurers,
  because noise ranks the candidates that tie.

``--alone`` leaves MetaSchedule out and prints the seconds a candidate of each pass: to compare two
checkouts of schedlang, run it in both in turns.

``--kept`` instead times whole calls of ``tune`` with 16 trials, with workers of their own and with
those of ``sl.measurer``, which stay, in turns.

Targets: ratio at least 4 (geometric mean), rank correlation at least 0.98. Needs the ``bench``
extra.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from _results import store

import schedlang as sl
from schedlang.targets import LocalCPU
from schedlang.targets.cpu.target import cpu_space

NAMES = ("GMM", "C2D", "DEP", "SFM")
BATCH = 16


class MetaSchedule:
    """TVM's builder and runner with their defaults, kept for all batches as a tuning run does.

    Only the builder's time-out is longer: its processes parse every tensor intrinsic when they
    start, which takes longer than the default 30 s on a busy machine.
    """

    def __init__(self, target: sl.Target, workload: sl.Workload) -> None:
        from tvm.s_tir.meta_schedule.arg_info import TensorInfo
        from tvm.s_tir.meta_schedule.builder import LocalBuilder
        from tvm.s_tir.meta_schedule.runner import LocalRunner

        self.target = target.tvm_target()
        self.builder = LocalBuilder(max_workers=target.cores, timeout_sec=120.0)
        self.runner = LocalRunner()
        self.arguments = [TensorInfo(arg.dtype, arg.shape) for arg in workload.args]

    def measure(self, modules: list[Any]) -> list[float | None]:
        """Return median latencies in seconds; ``None`` where measuring failed."""
        from tvm.s_tir.meta_schedule.builder import BuilderInput
        from tvm.s_tir.meta_schedule.runner import RunnerInput

        built = self.builder.build([BuilderInput(module, self.target) for module in modules])
        inputs = [
            RunnerInput(str(result.artifact_path), "cpu", self.arguments)
            for result in built
            if result.artifact_path is not None
        ]
        futures = iter(self.runner.run(inputs))
        latencies: list[float | None] = []
        for result in built:
            if result.artifact_path is None:
                latencies.append(None)
                continue
            ran = next(futures).result()
            seconds = None if ran.run_secs is None else [float(s) for s in ran.run_secs]
            latencies.append(statistics.median(seconds) if seconds else None)
        return latencies


def compare(name: str, candidates: int, seed: int, passes: int) -> dict[str, Any]:
    """One row: both measurers on the same candidates of a workload."""
    target = sl.Target("cpu")
    workload = sl.workloads.get(name)
    modules = distinct_programs(workload, candidates, seed)
    candidates = len(modules)
    ours, theirs = [], []
    wall = {"schedlang": 0.0, "metaschedule": 0.0}
    peer = MetaSchedule(target, workload)
    with LocalCPU(workload, target) as measurer:
        # Start the processes of both before timing: a run pays that once.
        peer.measure(modules[:2])
        list(measurer.measure([sl.Candidate(-1, modules[0]), sl.Candidate(-2, modules[1])]))
        for _ in range(passes):
            measurer.best_so_far = None
            mine, its = one_pass(measurer, peer, modules, wall)
            ours.append(mine)
            theirs.append(its)
    both = [k for k in range(candidates) if all(np.isfinite([one[k] for one in ours + theirs]))]
    if not both:
        raise SystemExit(f"{name}: MetaSchedule measured none of the candidates")
    mine, its = np.array(ours)[:, both], np.array(theirs)[:, both]
    faster = np.argsort(np.median(mine, axis=0))[: max(3, len(both) // 2)]
    mine, its = mine[:, faster], its[:, faster]
    return {
        "workload": name,
        "candidates": candidates,
        "measured by both": len(both),
        "schedlang seconds a candidate": wall["schedlang"] / candidates / passes,
        "metaschedule seconds a candidate": wall["metaschedule"] / candidates / passes,
        "ratio": wall["metaschedule"] / wall["schedlang"],
        "rank correlation": rank_correlation(mine[0], its[0]),
        "rank correlation of the medians": rank_correlation(
            np.median(mine, axis=0), np.median(its, axis=0)
        ),
        "schedlang with itself": with_itself(mine),
        "metaschedule with itself": with_itself(its),
        "schedlang latencies": mine.tolist(),
        "metaschedule latencies": its.tolist(),
    }


def alone(name: str, candidates: int, seed: int, passes: int) -> list[float]:
    """Seconds a candidate of each pass of schedlang's measurer."""
    workload = sl.workloads.get(name)
    modules = distinct_programs(workload, candidates, seed)
    batch = [sl.Candidate(number, module) for number, module in enumerate(modules)]
    seconds = []
    with LocalCPU(workload, sl.Target("cpu")) as measurer:
        list(measurer.measure([sl.Candidate(-1, modules[0]), sl.Candidate(-2, modules[1])]))
        for _ in range(passes):
            measurer.best_so_far = None
            start = time.perf_counter()
            list(measurer.measure(batch))
            seconds.append((time.perf_counter() - start) / len(batch))
    return seconds


def kept(name: str, seed: int, passes: int) -> tuple[float, float]:
    """Median seconds of a small run with workers of its own, and with workers that stay."""
    workload, target = sl.workloads.get(name), sl.Target("cpu")
    seconds: tuple[list[float], list[float]] = ([], [])
    with sl.measurer(target) as measurer:
        sl.tune(workload, target, trials=2, measurer=measurer)  # they start
        for _ in range(passes):
            for used, found in zip((None, measurer), seconds, strict=True):
                start = time.perf_counter()
                sl.tune(workload, target, trials=BATCH, seed=seed, measurer=used)
                found.append(time.perf_counter() - start)
    own, staying = map(statistics.median, seconds)
    return own, staying


def one_pass(
    measurer: LocalCPU, peer: MetaSchedule, modules: list[Any], wall: dict[str, float]
) -> tuple[list[float], list[float]]:
    """Latencies of all candidates, NaN for a failure, by both; they take turns by batch."""
    ours, theirs = [math.nan] * len(modules), []
    for first in range(0, len(modules), BATCH):
        start = time.perf_counter()
        numbers = range(first, min(first + BATCH, len(modules)))
        batch = [sl.Candidate(number, modules[number]) for number in numbers]
        for measurement in measurer.measure(batch):
            if measurement.ok:
                ours[measurement.id] = measurement.latency
        middle = time.perf_counter()
        theirs += peer.measure([modules[number] for number in numbers])
        wall["schedlang"] += middle - start
        wall["metaschedule"] += time.perf_counter() - middle
    return ours, [math.nan if latency is None else latency for latency in theirs]


def rank_correlation(one: Any, other: Any) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(one, other).statistic)


def with_itself(passes: Any) -> float | None:
    """Median rank correlation of a pass with the next."""
    if len(passes) < 2:
        return None
    return statistics.median(map(rank_correlation, passes[:-1], passes[1:]))


def distinct_programs(workload: sl.Workload, count: int, seed: int) -> list[Any]:
    """Different programs drawn from the CPU space; fewer where it holds fewer.

    They are drawn without the prior: with it, most latencies are too close together to rank.
    """
    from schedlang.search import Random

    space = cpu_space(sl.Target("cpu"), priors=False)
    proposals = Random(space, workload, seed).ask(count)
    return [proposal.schedule.mod for proposal in proposals]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="16 candidates of two workloads")
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--workloads", nargs="+", default=list(NAMES))
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="without MetaSchedule")
    parser.add_argument("--kept", action="store_true", help="workers that stay between calls")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    # TVM halves the number of hardware threads unless told; the runner's process inherits this.
    os.environ["TVM_NUM_THREADS"] = str(sl.Target("cpu").cores)
    names = ["GMM", "SFM"] if arguments.quick else arguments.workloads
    candidates = 16 if arguments.quick else arguments.candidates
    passes = 2 if arguments.quick else arguments.passes
    if arguments.alone:
        for name in names:
            seconds = alone(name, candidates, arguments.seed, passes)
            print(f"{name:8}", *(f"{one:8.4f}" for one in seconds), "  seconds a candidate")
        return
    if arguments.kept:
        for name in names:
            own, staying = kept(name, arguments.seed, passes)
            print(f"{name:8} own workers {own:.3f} s, kept {staying:.3f} s: {own / staying:.1f}x")
        return
    rows = []
    print("          seconds a candidate                rank correlation over the faster half")
    print("workload  schedlang  MetaSchedule  ratio     one pass  medians  own  MetaSchedule's own")
    for name in names:
        row = compare(name, candidates, arguments.seed, passes)
        rows.append(row)
        own = [row["schedlang with itself"], row["metaschedule with itself"]]
        shown = ["    -" if value is None else f"{value:5.3f}" for value in own]
        print(
            f"{name:8} {row['schedlang seconds a candidate']:10.3f} "
            f"{row['metaschedule seconds a candidate']:13.3f} {row['ratio']:6.2f} "
            f"{row['rank correlation']:12.3f} {row['rank correlation of the medians']:8.3f} "
            f"{shown[0]:>5} {shown[1]:>9}   ({row['measured by both']} measured by both)"
        )
        summary = summarize(rows)
        if arguments.json:  # after each row: an interrupted run keeps what it measured
            store(summary, arguments.json)
    print(
        f"geometric mean of the ratios {summary['geomean_ratio']:.2f} (target 4), "
        f"lowest correlation {summary['lowest_rank_correlation']:.3f}"
    )


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the JSON file holds."""
    return {
        "geomean_ratio": statistics.geometric_mean(row["ratio"] for row in rows),
        "lowest_rank_correlation": min(row["rank correlation"] for row in rows),
        "rows": rows,
    }


if __name__ == "__main__":
    main()
