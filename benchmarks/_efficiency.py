"""Measure the efficiency of our programs: GEMM, softmax, and shapes with few divisors."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

import _openblas
from _contest import Contestant, Winner, compete, draw_from, median, ratio, show

import schedlang as sl
from schedlang.cli.bench import torch_operators
from schedlang.measurement.contest import there_and_back
from schedlang.targets import LocalCPU
from schedlang.targets.cpu.rates import measured_peak

GEMM_EXTENTS = (512, 1024, 2048)
GEMM_TRIALS = 256

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


def report_gemm(extents: Sequence[int], trials: int, seed: int) -> dict[str, Any]:
    """Print and return GEMM against the measured peak and OpenBLAS, and softmax against torch."""
    target = sl.Target("cpu")
    peak = measured_peak()
    print(f"best of {trials} random trials, {target.cores} threads, against {_openblas.library()}")
    print("GEMM        us  GFLOPS  of peak  numpy's GFLOPS  ratio")
    rows = [_gemm(extent, trials, seed) for extent in extents]
    peak = max(peak, measured_peak())
    for row in rows:
        row["of peak"] = row["flops"] / peak
        print(
            f"{row['extent']:4} {row['latency'] * 1e6:9.1f} {row['flops'] / 1e9:7.1f} "
            f"{row['of peak']:8.2f} {row['numpy flops'] / 1e9:15.1f} {row['ratio']:6.2f}"
        )
    print(f"measured peak {peak / 1e9:.1f} GFLOPS (targets: 0.75 of it, 1.4 times numpy)")
    softmax = _softmax(trials, seed)
    print(
        f"SFM 256x256: {softmax['latency'] * 1e6:.1f} us, torch "
        f"{show(softmax['torch latency'], 0, 1, 1e6)} us: "
        f"{show(softmax['times torch'], 0)} times torch's (target: at most 1.3)"
    )
    return {"peak_flops": peak, "trials": trials, "rows": rows, "softmax": softmax}


def _gemm(extent: int, trials: int, seed: int) -> dict[str, Any]:
    workload = sl.workloads.matmul(extent, extent, extent)
    with LocalCPU(workload, "cpu") as measurer:
        cores = measurer.target.cores
        # Before and after; the faster counts, so that noise in numpy's runs does not favour us.
        before = _openblas.gemm_seconds(extent, cores)
        latency = best_of(measurer, trials, seed).latency
        numpy_latency = min(before, _openblas.gemm_seconds(extent, cores))
    return {
        "extent": extent,
        "latency": latency,
        "flops": workload.flops / latency,
        "numpy flops": workload.flops / numpy_latency,
        "ratio": numpy_latency / latency,
    }


def _softmax(trials: int, seed: int) -> dict[str, Any]:
    workload = sl.workloads.get("SFM")
    torch_latency = None
    with LocalCPU(workload, "cpu") as measurer:
        winner = best_of(measurer, trials, seed)
        if torch_operators.available():
            eager = torch_operators.TorchOperator(workload, measurer.target.cores)
            torch_latency = eager.latency()
    return {
        "latency": winner.latency,
        "torch latency": torch_latency,
        "times torch": ratio(winner.latency, torch_latency),
    }


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
