"""Measure the cost of recording: replay through schedlang against TVM's own ``Trace``.

Both apply the same instructions with the same decisions to the same program, alternately in one
process. Each ratio is of two consecutive samples, because a noisy machine drifts. Targets: at most
1.15 on C2D and 1.35 on GMM.

Two forms of each trace are timed: ``primitives`` (flattened: exactly the instructions that TVM
replays) and ``as recorded`` (with instructions written in Python, which analyse the program at
every replay, as in a search).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from _results import store
from tvm.s_tir import Schedule as TVMSchedule

import schedlang as sl

LIMITS = {"C2D": 1.15, "GMM": 1.35}


def seconds(function: Callable[[], object], calls: int) -> float:
    """Wall time of one call, averaged over ``calls``."""
    start = time.perf_counter()
    for _ in range(calls):
        function()
    return (time.perf_counter() - start) / calls


def compare(workload: sl.Workload, trace: sl.Trace, repeats: int) -> dict[str, float]:
    """Median times in seconds, and medians of the paired ratios."""
    flat = trace.flattened()
    tvm_trace = flat.to_tvm_trace()

    def by_tvm() -> None:
        tvm_trace.apply_to_schedule(TVMSchedule(workload.mod), remove_postproc=False)

    samples: dict[str, list[float]] = {"tvm": [], "primitives": [], "as recorded": []}
    calls = max(1, int(0.02 / seconds(by_tvm, 3)))
    for _ in range(repeats):
        samples["tvm"].append(seconds(by_tvm, calls))
        samples["primitives"].append(seconds(flat.replay, calls))
        samples["as recorded"].append(seconds(trace.replay, calls))
    row = {f"{name} seconds": statistics.median(times) for name, times in samples.items()}
    for name in ("primitives", "as recorded"):
        pairs = zip(samples[name], samples["tvm"], strict=True)
        row[f"{name} ratio"] = statistics.median(ours / theirs for ours, theirs in pairs)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer repeats and traces")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    repeats, traces = (7, 3) if arguments.quick else (25, 6)
    space = sl.default_space()
    rows = []
    print("workload trace steps  TVM ms primitives  recorded")
    for workload in (sl.workloads.C2D(), sl.workloads.GMM()):
        for seed in range(traces):
            trace = space.sample(workload, seed=seed).trace
            row = compare(workload, trace, repeats)
            rows.append({"workload": workload.name, "seed": seed, **row})
            print(
                f"{workload.name:8} {seed:5} {len(trace.flattened()):5} "
                f"{row['tvm seconds'] * 1e3:7.2f} {row['primitives ratio']:10.2f} "
                f"{row['as recorded ratio']:9.2f}"
            )
    summary = {}
    for name, limit in LIMITS.items():
        for form in ("primitives", "as recorded"):
            ratios = [row[f"{form} ratio"] for row in rows if row["workload"] == name]
            summary[f"{name} {form}"] = statistics.median(ratios)
        print(
            f"{name}: {summary[f'{name} primitives']:.2f} of TVM's time for the same primitives "
            f"(at most {limit}), {summary[f'{name} as recorded']:.2f} as recorded"
        )
    if arguments.json:
        store({"summary": summary, "rows": rows}, arguments.json)


if __name__ == "__main__":
    main()
