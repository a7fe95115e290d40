"""Tune beside other work, and time the winners when the machine is quiet.

Each workload is tuned quiet, beside each load, and quiet once more: the two quiet runs against
each other tell what chance does. Each run is a process of its own. ``--before DIR`` tunes with
another checkout as well, in turns with this one. When all runs of a workload have ended, their
winners are timed against each other, interleaved, with nothing else running: a run's quality is
the latency of the first quiet winner divided by that of its own. Of the five fastest records of
each run it is told how many claim to be undisturbed, and how far these and the others are from
what they take quietly.

Loads: ``spin2`` and ``spin4``, processes that compute; ``stream``, one that copies memory;
``bursts``, two that compute for 2 s and sleep for 2 s; ``compile``, two that compile programs and
one that imports the library again and again, as a test suite does.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import schedlang as sl
from schedlang.targets import LocalCPU

ROOT = Path(__file__).resolve().parents[1]
WORKLOADS = ("GMM", "C2D", "DEP", "SFM")
LEADERS = 5

_SPIN = "while True: pass"
_STREAM = "import numpy as np; a = np.ones(1 << 26); b = a.copy()\nwhile True: np.copyto(b, a)"
_BURSTS = """
import time
while True:
    end = time.monotonic() + 2
    while time.monotonic() < end: pass
    time.sleep(2)
"""
_COMPILE = """
import schedlang as sl
while True:
    for seed in range(100):
        schedule = sl.default_space().sample(sl.workloads.standard("C2D")[0], seed=seed)
        sl.Target("cpu").build(schedule.mod)
"""
_IMPORT = """
import subprocess, sys
text = "import schedlang as sl; sl.workloads.GMM(8, 8, 8)"
while True: subprocess.run([sys.executable, "-c", text])
"""
LOADS: Mapping[str, Sequence[str]] = {
    "quiet": (),
    "quiet again": (),
    "spin2": (_SPIN,) * 2,
    "spin4": (_SPIN,) * 4,
    "stream": (_STREAM,),
    "bursts": (_BURSTS,) * 2,
    "compile": (_COMPILE, _COMPILE, _IMPORT),
}

# Tunes in a process of its own, with the checkout that PYTHONPATH names; prints a JSON object.
_TUNE = """
import json, sys, time
import schedlang as sl
name, trials, seed, leaders = sys.argv[1], *map(int, sys.argv[2:])
workload = sl.workloads.standard(name)[0]
start = time.monotonic()
result = sl.tune(workload, trials=trials, seed=seed, progress=False)
seconds = time.monotonic() - start
rows = sorted((one for one in result.records if one.ok), key=lambda one: one.latency)[:leaders]
def told(record):
    found = getattr(record, "disturbance", None)
    return None if found is None else [found.undisturbed, found.disturbed, found.low, found.high]
print(json.dumps({
    "seconds": seconds,
    "winner": result.best.trace.to_json(),
    "latency": result.best.latency,
    "leaders": [[one.trace_json, one.latency, told(one)] for one in rows],
}))
"""


@contextmanager
def load(name: str) -> Iterator[None]:
    """Keep the machine busy, for the ``with`` block."""
    others = [
        subprocess.Popen(
            [sys.executable, "-c", text],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TVM_NUM_THREADS": "1"},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for text in LOADS[name]
    ]
    try:
        if others:
            time.sleep(3)
        yield
    finally:
        for other in others:
            os.killpg(other.pid, signal.SIGKILL)
            other.wait()


def tuned(root: Path, name: str, beside: str, trials: int, seed: int) -> dict[str, Any]:
    """Tune a workload in a process of its own, beside a load."""
    with load(beside), tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", _TUNE, name, *map(str, (trials, seed, LEADERS))],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{root}, {name} beside {beside}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def timed(name: str, traces: Sequence[str], rounds: int) -> dict[str, float]:
    """Time programs in turns; return the median latency of each in seconds, by its trace."""
    workload = sl.workloads.standard(name)[0]
    different = list(dict.fromkeys(traces))
    with LocalCPU(workload, "cpu") as measurer:
        candidates = [
            sl.Candidate(number, sl.Trace.from_json(trace, workload).replay(workload).mod)
            for number, trace in enumerate(different)
        ]
        found = measurer.remeasure(candidates, rounds=rounds, budget_seconds=60.0)
    return {different[one.id]: one.latency for one in found if one.ok}


def study(
    name: str, roots: Mapping[str, Path], loads: Sequence[str], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Tune a workload beside all loads, and time what was found."""
    rows = [
        {"workload": name, "side": side, "beside": beside, "seed": seed}
        | tuned(root, name, beside, args.trials, seed)
        for seed in range(args.seeds)
        for beside in ("quiet", *loads, "quiet again")
        for side, root in roots.items()
    ]
    traces = [
        trace for row in rows for trace in (row["winner"], *(one[0] for one in row["leaders"]))
    ]
    quiet = timed(name, traces, args.rounds)
    for row in rows:
        base = next(one for one in rows if (one["side"], one["seed"]) == (row["side"], row["seed"]))
        row["quality"] = quiet[base["winner"]] / quiet[row["winner"]]
        row["told"] = [
            [told is not None and told[0] >= 3, latency / quiet[trace]]
            for trace, latency, told in row.pop("leaders")
            if trace in quiet
        ]
        del row["winner"]
    return rows


def main() -> None:
    """Run the benchmark; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--workloads", nargs="+", default=WORKLOADS, choices=WORKLOADS)
    parser.add_argument(
        "--loads", nargs="+", default=[one for one, others in LOADS.items() if others]
    )
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--before", type=Path, help="another checkout, tuned with in turns")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    roots = {"now": ROOT} | ({} if args.before is None else {"before": args.before.resolve()})
    rows: list[dict[str, Any]] = []
    for name in args.workloads:
        rows += study(name, roots, args.loads, args)
        if args.json is not None:
            args.json.write_text(json.dumps({"cores": os.cpu_count(), "rows": rows}, indent=1))
    print(f"{'workload':9}{'beside':13}{'side':8}{'quality':>8}{'seconds':>9}  claims undisturbed")
    for row in rows:
        claim = [ratio for settled, ratio in row["told"] if settled]
        near = sum(abs(ratio - 1) <= 0.1 for ratio in claim)
        print(
            f"{row['workload']:9}{row['beside']:13}{row['side']:8}{row['quality']:8.3f}"
            f"{row['seconds']:9.1f}  {len(claim)} of {len(row['told'])}, {near} within 10%"
        )
    for side in roots:
        for beside in (*args.loads, "quiet again"):
            found = [r["quality"] for r in rows if (r["side"], r["beside"]) == (side, beside)]
            print(f"{side:8}{beside:13}{statistics.geometric_mean(found):8.3f}")


if __name__ == "__main__":
    main()
