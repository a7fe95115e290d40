"""Measure the noise of reported latencies: the same candidates measured repeatedly, interleaved.

Some candidates of a workload are measured alternately, ``--times`` times each, by the measurer that
``tune`` uses. Reported for each: the spread of its latency (90th over 10th percentile). Target: at
most 1.05 on an idle machine. The finals are then repeated with the same candidates: the winner
should be the same each time.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import schedlang as sl
from schedlang.measurement.finals import choose
from schedlang.search import Random
from schedlang.targets import LocalCPU


def spread(latencies: list[float]) -> float:
    """90th over 10th percentile."""
    low, high = np.percentile(latencies, [10, 90])
    return float(high / low)


def fast_candidates(
    measurer: LocalCPU, workload: sl.Workload, drawn: int, kept: int
) -> list[sl.Candidate]:
    """Return the fastest of some random candidates, as the finals of a run compare them."""
    proposals = Random(sl.default_space(), workload, seed=0).ask(drawn)
    candidates = [sl.Candidate(p.id, p.schedule.mod) for p in proposals]
    measured = [m for m in measurer.measure(candidates) if m.ok]
    best = sorted(measured, key=lambda m: m.latency)[:kept]
    by_id = {candidate.id: candidate for candidate in candidates}
    return [by_id[m.id] for m in best]


def hold_finals(measurer: LocalCPU, candidates: list[sl.Candidate]) -> int:
    """The winner's id after timing the candidates against each other."""
    measured = [m for m in measurer.remeasure(candidates) if m.ok]
    return choose({m.id: m.samples for m in measured}).winner.id


def study(workload: sl.Workload, times: int, finals: int, drawn: int) -> dict[str, Any]:
    """Spreads of one workload's fastest candidates, and how often each of them won the finals."""
    with LocalCPU(workload, "cpu") as measurer:
        candidates = fast_candidates(measurer, workload, drawn, kept=5)
        latencies: dict[int, list[float]] = {c.id: [] for c in candidates}
        for turn in range(times):
            # Reorder each time, so that no candidate always runs after the same other.
            order = candidates[turn % len(candidates) :] + candidates[: turn % len(candidates)]
            measurer.best_so_far = None
            for measurement in measurer.measure(order):
                if measurement.ok:
                    latencies[measurement.id].append(measurement.latency)
        winners = Counter(hold_finals(measurer, candidates) for _ in range(finals))
    return {
        "workload": workload.name,
        "spreads": [spread(times) for times in latencies.values()],
        "medians": [statistics.median(times) for times in latencies.values()],
        "winners": dict(winners),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one workload, fewer times")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--finals", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    names = ["GMM"] if arguments.quick else ["GMM", "C2D", "DEP"]
    times, drawn = (8, 16) if arguments.quick else (arguments.times, 48)
    rows = []
    print("workload  spread of the five fastest (p90/p10)       finals won, by candidate")
    for name in names:
        row = study(sl.workloads.get(name), times, arguments.finals, drawn)
        rows.append(row)
        shown = " ".join(f"{s:.3f}" for s in row["spreads"])
        print(f"{name:8}  {shown:42} {row['winners']}")
    worst = max(s for row in rows for s in row["spreads"])
    median = statistics.median(s for row in rows for s in row["spreads"])
    print(f"median spread {median:.3f}, worst {worst:.3f} (target 1.05 on an idle machine)")
    if arguments.json:
        summary = {"median_spread": median, "worst_spread": worst, "rows": rows}
        arguments.json.write_text(json.dumps(summary, indent=1) + "\n")


if __name__ == "__main__":
    main()
