"""Measure how long a report of 10,000 trials takes to write, and how large it is.

The run is synthetic: two traces of the CPU's default space for a convolution with its epilogue,
with other decisions drawn at their sites, latencies that follow from the decisions, failures, the
time line of four workers, rejections and finals. Targets: under 2 s and under 5 MB. The first
report of a process takes longer: it imports altair, and waits for another process that makes Vega's
script.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _results import store

import schedlang as sl  # noqa: E402
from schedlang.database.history import RunHistory  # noqa: E402
from tests.report.synthetic import make_history  # noqa: E402

TARGET_SECONDS, TARGET_BYTES = 2.0, 5e6
_WORKERS = 4


def make(trials: int) -> RunHistory:
    """A run of so many trials, with traces of a usual length."""
    workload = sl.workloads.CBR()
    space = sl.default_space(sl.Target("x86/avx2", cores=8))
    traces = [space.sample(workload, seed=seed).trace.to_json() for seed in (0, 1)]
    return make_history(trials, workers=_WORKERS, workload=workload, traces=traces)


def write_once(history: RunHistory, path: Path) -> float:
    """Seconds that writing a report takes."""
    start = time.perf_counter()
    sl.report.write(history, path)
    return time.perf_counter() - start


def first(trials: int) -> float:
    """Seconds of the first report of a process, imports included."""
    command = [sys.executable, __file__, "--trials", str(trials), "--first"]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def measure(trials: int, times: int) -> dict[str, Any]:
    """All figures; times in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.html"
        firsts = [first(trials) for _ in range(times)]
        history = make(trials)
        write_once(history, path)
        taken = [write_once(history, path) for _ in range(times)]
        return {
            "trials": trials,
            "trace bytes": statistics.mean(len(one.trace_json) for one in history.records),
            "different traces": len({one.trace_json for one in history.records}),
            "first report of a process": firsts,
            "later reports": taken,
            "file bytes": path.stat().st_size,
        }


def show(row: dict[str, Any]) -> None:
    """Print the figures as a table."""
    print(f"{'trials':28} {row['trials']:10,}")
    print(f"{'bytes of a trace, mean':28} {row['trace bytes']:10,.0f}")
    print(f"{'different traces':28} {row['different traces']:10,}")
    for name in ("first report of a process", "later reports"):
        seconds = row[name]
        spread = f"({min(seconds):.2f} to {max(seconds):.2f})"
        print(f"{name:28} {statistics.median(seconds):10.2f} s {spread}")
    print(f"{'file':28} {row['file bytes'] / 1e6:10.2f} MB")
    slowest = statistics.median(row["first report of a process"])
    fits = slowest < TARGET_SECONDS and row["file bytes"] < TARGET_BYTES
    verdict = "under" if fits else "NOT under"
    print(f"first and later reports: {verdict} {TARGET_SECONDS:g} s and {TARGET_BYTES / 1e6:g} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="1,000 trials, once")
    parser.add_argument("--trials", type=int, help="number of trials; 10,000 by default")
    parser.add_argument("--times", type=int, help="number of reports; 5 by default")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    trials = arguments.trials or (1_000 if arguments.quick else 10_000)
    if arguments.first:
        history = make(trials)
        with tempfile.TemporaryDirectory() as folder:
            print(write_once(history, Path(folder) / "run.html"))
        return
    row = measure(trials, arguments.times or (1 if arguments.quick else 5))
    show(row)
    if arguments.json:
        store(row, arguments.json)


if __name__ == "__main__":
    main()
