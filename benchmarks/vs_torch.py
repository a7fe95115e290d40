"""Compare kernels that the default search finds with torch: eager and ``torch.compile``.

Each workload is tuned once, with the defaults of ``tune`` and 256 trials. Its winner, torch eager
and torch compiled with ``mode="max-autotune"`` (weights frozen, as in a served model) are then
timed alternately on the same number of threads, in forward and reverse order. Each round gives a
median per contestant, and its fastest round counts, so that noise does not favour either side.
The outputs of eager and compiled torch are compared with those of the verified winner.

On a CPU, max-autotune generates its own code for few operators; the table names the library
functions that the compiled code calls instead. Each call of compiled code includes its guards,
about ten microseconds.

For GEMM, the benchmark reports the fraction of the measured multiply-add peak (``peak.py``, before
and after) that the best of 128 trials reaches.

Targets: 1.8 times eager (geometric mean), none below 0.9; GEMM 0.9 of the peak. Needs the ``bench``
extra, and a C++ compiler for ``torch.compile``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from _contest import WORKLOADS, ratio, show, summarise
from _efficiency import GEMM_EXTENTS

import schedlang as sl
from schedlang.cli.bench.peers import (
    CALM,
    COMPILED,
    EAGER,
    OURS,
    OtherResults,
    spread,
    time_in_turns,
    torch_peers,
    why_missing,
)
from schedlang.measurement import contest
from schedlang.targets import LocalCPU
from schedlang.targets.cpu.rates import fed_peak, measured_peak

TRIALS = 256
GEMM_TRIALS = 128
ROUNDS = 6
# The sides, as the figures call them.
_SIDES = {OURS: "schedlang", EAGER: "eager", COMPILED: "compiled"}

Keep = Callable[[dict[str, Any]], None]


def compare(name: str, trials: int, seed: int) -> dict[str, Any]:
    """Return one row: a workload's winner and torch, timed alternately."""
    target = sl.Target("cpu")
    workload = sl.workloads.get(name)
    result = sl.tune(workload, target, trials=trials, seed=seed, progress=False)
    winner = result.best.schedule.mod
    peers, missing = torch_peers(workload, winner, target, compiled=True)
    for side, error in missing.items():
        if side == EAGER or isinstance(error, OtherResults):
            raise SystemExit(f"{name}: {error}")
    with LocalCPU(workload, target) as measurer:
        found = time_in_turns(measurer, {OURS: winner}, peers, ROUNDS, samples=contest.ROUNDS)
    rounds = {_SIDES[side]: times for side, times in found.items()}
    latency = {side: min(times) for side, times in rounds.items()}
    failure = "".join(why_missing(*one) for one in missing.items())
    return {
        "workload": name,
        "latency": latency,
        "over eager": ratio(latency["eager"], latency["schedlang"]),
        "over compiled": ratio(latency.get("compiled"), latency["schedlang"]),
        "library calls": getattr(peers.get(COMPILED), "library_calls", []),
        "compile error": failure,
        "search": result.records[0].search,
        "tuning seconds": result.seconds,
        "turns": rounds,
        "spread": spread(rounds),
    }


def report_torch(names: Sequence[str], trials: int, seed: int, keep: Keep) -> None:
    """Print the comparison with torch, and give ``keep`` the figures after each workload."""
    print(f"          best of {trials} trials (us)               latency over ours")
    print("workload   schedlang      eager   compiled    eager  compiled   compiled calls")
    rows: list[dict[str, Any]] = []
    figures: dict[str, Any] = {}
    for name in names:
        row = compare(name, trials, seed)
        rows.append(row)
        times = row["latency"]
        calls = row["compile error"] or ", ".join(row["library calls"]) or "its own code only"
        noise = "" if row["spread"] <= CALM else f"; rounds usually {row['spread']:.1f} times"
        print(
            f"{name:8} {show(times['schedlang'], 11, 1, 1e6)} {show(times['eager'], 10, 1, 1e6)} "
            f"{show(times.get('compiled'), 10, 1, 1e6)} {show(row['over eager'], 8)} "
            f"{show(row['over compiled'], 9)}   {calls}{noise}",
            flush=True,
        )
        figures = {"trials": trials, "rows": rows}
        for side in ("eager", "compiled"):
            mean, worst = summarise([one[f"over {side}"] for one in rows])
            figures |= {f"geomean_over_{side}": mean, f"worst_over_{side}": worst}
        keep(figures)
    print(
        f"eager: geometric mean {show(figures['geomean_over_eager'], 0)} (target 1.8), "
        f"lowest {show(figures['worst_over_eager'], 0)} (target 0.9)\n"
        f"compiled: geometric mean {show(figures['geomean_over_compiled'], 0)}, "
        f"lowest {show(figures['worst_over_compiled'], 0)}"
    )


def report_gemm(extents: Sequence[int], trials: int, seed: int) -> dict[str, Any]:
    """Print and return the part of the peak that square matrix products reach."""
    peak = measured_peak()
    rows = []
    for extent in extents:
        workload = sl.workloads.matmul(extent, extent, extent)
        result = sl.tune(workload, trials=trials, seed=seed, progress=False)
        rows.append({"extent": extent, "latency": result.best.latency, "seconds": result.seconds})
        rows[-1]["flops"] = workload.flops / result.best.latency
    peak = max(peak, measured_peak())
    print(f"\nGEMM        us  GFLOPS  of peak   tuning seconds ({trials} trials)")
    for row in rows:
        row["of_peak"] = row["flops"] / peak
        print(
            f"{row['extent']:4} {row['latency'] * 1e6:9.1f} {row['flops'] / 1e9:7.1f} "
            f"{row['of_peak']:8.2f} {row['seconds']:16.1f}"
        )
    lowest, fed = min(row["of_peak"] for row in rows), fed_peak()
    print(
        f"measured peak {peak / 1e9:.1f} GFLOPS; lowest part {lowest:.2f} (target 0.9)\n"
        f"with operands from the L1 cache {fed / 1e9:.1f} GFLOPS, {fed / peak:.2f} of that peak"
    )
    return {
        "peak_flops": peak,
        "fed_flops": fed,
        "worst_of_peak": lowest,
        "trials": trials,
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="8 trials of GMM and GEMM 512")
    parser.add_argument("--workloads", nargs="+", metavar="NAME", help="all by default")
    parser.add_argument("--extents", type=int, nargs="*", help="GEMM extents; no value skips GEMM")
    parser.add_argument("--trials", type=int, help=f"{TRIALS} by default, {GEMM_TRIALS} for GEMM")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    names = arguments.workloads or (["GMM"] if arguments.quick else WORKLOADS)
    extents = arguments.extents
    if extents is None:
        extents = GEMM_EXTENTS[:1] if arguments.quick else GEMM_EXTENTS
    trials = arguments.trials or (8 if arguments.quick else None)
    summary: dict[str, Any] = {}

    def keep(part: str, figures: dict[str, Any]) -> None:
        summary[part] = figures
        if arguments.json:  # after each row: an interrupted run keeps what it measured
            arguments.json.write_text(json.dumps(summary, indent=1) + "\n")

    report_torch(names, trials or TRIALS, arguments.seed, partial(keep, "torch"))
    if extents:
        keep("gemm", report_gemm(extents, trials or GEMM_TRIALS, arguments.seed))


if __name__ == "__main__":
    main()
