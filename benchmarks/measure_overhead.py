"""What measuring a candidate costs: schedlang's measurer against MetaSchedule's, same candidates.

The candidates are drawn from schedlang's CPU space and given to both in the same order: schedlang's
``LocalCPU`` with its defaults, and TVM's ``LocalBuilder`` and ``LocalRunner`` with theirs (which
start processes, write archives and link them). Both use as many threads as the target has cores,
start their processes before the clock does, and take turns by batch, so that both see the same
state of the machine.

Reported for each workload: wall time a candidate of both, their ratio, and the rank correlation
(Spearman) of the latencies over the faster half. Targets: ratio at least 4 (geometric mean), rank
correlation at least 0.98. Needs the ``bench`` extra.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.targets import LocalCPU

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
        """Median latencies in seconds; None for a failure."""
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


def compare(name: str, candidates: int, seed: int) -> dict[str, Any]:
    """One row: both measurers on the same candidates of a workload."""
    from scipy.stats import spearmanr

    target = sl.Target("cpu")
    workload = sl.workloads.get(name)
    modules = distinct_programs(workload, candidates, seed)
    candidates = len(modules)
    ours: list[float | None] = [None] * candidates
    theirs: list[float | None] = []
    wall = {"schedlang": 0.0, "metaschedule": 0.0}
    peer = MetaSchedule(target, workload)
    with LocalCPU(workload, target) as measurer:
        # Both start their processes before the clock does: a run pays that once.
        peer.measure(modules[:2])
        list(measurer.measure([sl.Candidate(-1, modules[0]), sl.Candidate(-2, modules[1])]))
        measurer.best_so_far = None
        start = time.perf_counter()
        for first in range(0, candidates, BATCH):
            numbers = range(first, min(first + BATCH, candidates))
            batch = [sl.Candidate(number, modules[number]) for number in numbers]
            for measurement in measurer.measure(batch):
                if measurement.ok:
                    ours[measurement.id] = measurement.latency
            now = time.perf_counter()
            wall["schedlang"] += now - start
            theirs += peer.measure([modules[number] for number in numbers])
            start = time.perf_counter()
            wall["metaschedule"] += start - now
    if not any(theirs):
        raise SystemExit(f"{name}: MetaSchedule measured none of the candidates")
    both = [(a, b) for a, b in zip(ours, theirs, strict=True) if a is not None and b is not None]
    faster = sorted(both)[: max(3, len(both) // 2)]
    correlation = float(spearmanr(*zip(*faster, strict=True)).statistic)
    return {
        "workload": name,
        "candidates": candidates,
        "measured by both": len(both),
        "schedlang seconds a candidate": wall["schedlang"] / candidates,
        "metaschedule seconds a candidate": wall["metaschedule"] / candidates,
        "ratio": wall["metaschedule"] / wall["schedlang"],
        "rank correlation": correlation,
        "latencies": both,
    }


def distinct_programs(workload: sl.Workload, count: int, seed: int) -> list[Any]:
    """Different programs drawn from the CPU space; fewer where it holds fewer."""
    from schedlang.search import Random

    proposals = Random(sl.default_space(), workload, seed).ask(count)
    return [proposal.schedule.mod for proposal in proposals]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="16 candidates of two workloads")
    parser.add_argument("--candidates", type=int, default=64)
    parser.add_argument("--workloads", nargs="+", default=list(NAMES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    # TVM halves the number of hardware threads unless told; the runner's process inherits this.
    os.environ["TVM_NUM_THREADS"] = str(sl.Target("cpu").cores)
    names = ["GMM", "SFM"] if arguments.quick else arguments.workloads
    candidates = 16 if arguments.quick else arguments.candidates
    rows = []
    print("workload  schedlang s  MetaSchedule s  ratio  rank correlation  both ok")
    for name in names:
        row = compare(name, candidates, arguments.seed)
        rows.append(row)
        print(
            f"{name:8} {row['schedlang seconds a candidate']:12.3f} "
            f"{row['metaschedule seconds a candidate']:15.3f} {row['ratio']:6.2f} "
            f"{row['rank correlation']:17.3f} {row['measured by both']:8}"
        )
    ratio = statistics.geometric_mean(row["ratio"] for row in rows)
    correlation = min(row["rank correlation"] for row in rows)
    print(
        f"geometric mean of the ratios {ratio:.2f} (target 4), lowest correlation {correlation:.3f}"
    )
    if arguments.json:
        summary = {"geomean_ratio": ratio, "lowest_rank_correlation": correlation, "rows": rows}
        arguments.json.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
