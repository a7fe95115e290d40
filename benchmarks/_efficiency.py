"""Measure the efficiency of our programs for shapes with few divisors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from _contest import Contestant, Winner, compete, draw_from, median, ratio, show

import schedlang as sl
from schedlang.measurement.contest import there_and_back
from schedlang.targets import LocalCPU

_C2D_REST = (512, 512, 3, 1, 1)
# Each odd shape with the nearest shape that has many divisors.
ODD_PAIRS = (
    (sl.workloads.GMM(127, 127, 127), sl.workloads.GMM(128, 128, 128)),
    (sl.workloads.GMM(1000, 1000, 1000), sl.workloads.GMM(1024, 1024, 1024)),
    (sl.workloads.C2D(7, 7, *_C2D_REST), sl.workloads.C2D(8, 8, *_C2D_REST)),
)


def best_of(measurer: LocalCPU, trials: int, seed: int) -> Winner:
    """Return our best of ``trials`` random trials; SystemExit if none works."""
    workload, target = measurer.workload, measurer.target
    contestant = Contestant(draw_from(sl.default_space(target), workload, seed))
    winners = compete(measurer, {"schedlang": contestant}, trials)
    if not winners:
        raise SystemExit(f"{workload}: no candidate works: {dict(contestant.failures)}")
    return winners["schedlang"]


def report_odd(
    pairs: Sequence[tuple[sl.Workload, sl.Workload]], trials: int, seeds: Sequence[int]
) -> dict[str, Any]:
    """Print and return the efficiency of odd shapes over that of their neighbours."""
    print(f"best of {trials} random trials, median of {len(seeds)}; GFLOPS")
    print("odd shape                            GFLOPS  neighbour's  ratio")
    rows = []
    for odd, friendly in pairs:
        measured = [_efficiencies((odd, friendly), trials, seed) for seed in seeds]
        ours, theirs = (median(one) for one in zip(*measured, strict=True))
        rows.append(
            {
                "odd": odd.source,
                "friendly": friendly.source,
                "odd flops": ours,
                "friendly flops": theirs,
                "ratio": ratio(ours, theirs),
                "flops by seed": measured,
            }
        )
        shown = odd.source.removeprefix("sl.workloads.")
        print(
            f"{shown:34} {show(ours, 8, 1, 1e-9)} {show(theirs, 12, 1, 1e-9)} "
            f"{show(rows[-1]['ratio'], 6)}"
        )
    worst = min(row["ratio"] for row in rows)
    print(f"lowest ratio {worst:.2f} (target 0.85)")
    return {"worst_ratio": worst, "trials": trials, "rows": rows}


def _efficiencies(pair: tuple[sl.Workload, sl.Workload], trials: int, seed: int) -> list[float]:
    """Return the operations per second of both winners, timed alternately."""
    samples: list[list[float]] = [[], []]
    with LocalCPU(pair[0], "cpu") as odd, LocalCPU(pair[1], "cpu") as friendly:
        measurers = (odd, friendly)
        winners = [best_of(measurer, trials, seed) for measurer in measurers]
        for number in (*there_and_back((0, 1), 0), *there_and_back((0, 1), 1)):
            candidate = sl.Candidate(0, winners[number].module)
            (measurement,) = measurers[number].remeasure([candidate])
            samples[number] += measurement.samples if measurement.ok else []
    return [
        workload.flops / (statistics.median(times) if times else winner.latency)
        for workload, times, winner in zip(pair, samples, winners, strict=True)
    ]
