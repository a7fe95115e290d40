"""Tune beside other work, and time the winners when the machine is quiet.

Each workload is tuned quiet, beside each load, and quiet once more: the two quiet runs against
each other tell what chance does. Each run is a process of its own. ``--before DIR`` tunes with
another checkout as well, in turns with this one. When all runs of a workload have ended, their
winners are timed against each other, interleaved, with nothing else running (so ``--loads`` with
nothing behind it, and ``--before``, is a race of two checkouts): a run's quality is
the latency of the first quiet winner divided by that of its own. The five fastest records of each
run are timed when its load has ended, alone as in a search: it is told how many claim to be
undisturbed, and how far these and the others are from what they take quietly. A virtual machine
may change its speed between minutes, which all records of a run share: those within 10% are
counted as they are, and around the run's median ratio.
``--seconds`` gives each run so much time besides, and the table then says what it took.

``network`` is a small one of convolutions, imported from torch; its trials are for all functions
together, and its quality is that of a call of the compiled network.

Loads: ``spin2`` and ``spin4``, processes that compute; ``stream``, one that copies memory;
``bursts``, two that compute for 2 s and sleep for 2 s; ``compile``, two that compile programs and
one that imports the library again and again, as a test suite does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from _results import store

import schedlang as sl
from schedlang.targets import LocalCPU

ROOT = Path(__file__).resolve().parents[1]
# Calls of a network in a sample.
_CALLS = 20
# Number of times that leaders are timed quietly.
_PASSES = 3
NETWORK = "network"
WORKLOADS = ("GMM", "C2D", "DEP", "SFM", NETWORK)
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

# These tune in a process of its own, with the checkout that PYTHONPATH names; they print JSON.
_TUNE = """
import json, sys, time
import schedlang as sl
name, trials, seed, leaders, path = sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5]
limit = float(sys.argv[6]) if len(sys.argv) > 6 else None
workload = sl.workloads.standard(name)[0]
start = time.monotonic()
result = sl.tune(workload, trials=trials, seconds=limit, seed=seed, progress=False, database=path)
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
_TUNE_NETWORK = """
import json, sys, time, torch
import schedlang as sl
def network():
    torch.manual_seed(0)
    layers, widths = [], [3, 16, 32, 64, 64]
    for k, (one, two) in enumerate(zip(widths, widths[1:])):
        layers += [torch.nn.Conv2d(one, two, 3, 1 + k % 2, 1), torch.nn.ReLU()]
        layers += [torch.nn.Conv2d(two, two, 3, 1, 1, groups=two), torch.nn.ReLU()]
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(64, 100)]
    return sl.import_network(torch.nn.Sequential(*layers).eval(), torch.randn(1, 3, 56, 56))
if __name__ == "__main__":
    trials, seed, path = int(sys.argv[2]), int(sys.argv[3]), sys.argv[5]
    limit = float(sys.argv[6]) if len(sys.argv) > 6 else None
    start = time.monotonic()
    result = sl.tune_network(
        network(), trials=trials, seconds=limit, seed=seed, progress=False, database=path
    )
    seconds = time.monotonic() - start
    trials = [one.trials for one in result.tasks]
    print(json.dumps({"seconds": seconds, "latency": result.latency, "trials": trials}))
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


def tuned(
    root: Path, name: str, beside: str, seed: int, path: Path, args: argparse.Namespace
) -> dict[str, Any]:
    """Tune a workload in a process of its own, beside a load; its records go to ``path``."""
    text = _TUNE_NETWORK if name == NETWORK else _TUNE
    given: list[object] = [name, args.trials, seed, LEADERS, path]
    if args.seconds is not None:
        given.append(args.seconds)
    with load(beside):
        done = subprocess.run(
            [sys.executable, "-c", text, *map(str, given)],
            cwd=path.parent,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        raise SystemExit(f"{root}, {name} beside {beside}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def candidates(name: str, traces: Iterable[str]) -> tuple[dict[int, str], list[sl.Candidate]]:
    """Return the different programs among ``traces``, and the trace of each by its number."""
    workload = sl.workloads.standard(name)[0]
    sl.default_space()  # the instructions of its traces are known from now on
    numbered = dict(enumerate(dict.fromkeys(traces)))
    return numbered, [
        sl.Candidate(number, sl.Trace.from_json(trace, workload).replay(workload).mod)
        for number, trace in numbered.items()
    ]


def timed_in_turns(name: str, winners: Sequence[str], rounds: int) -> dict[str, float]:
    """Time winners in turns; return the median latency of each in seconds."""
    numbered, programs = candidates(name, winners)
    with LocalCPU(sl.workloads.standard(name)[0], "cpu") as measurer:
        found = measurer.remeasure(programs, rounds=rounds, budget_seconds=60.0)
    return {numbered[one.id]: one.latency for one in found if one.ok}


def timed_alone(name: str, leaders: Iterable[str]) -> dict[str, float]:
    """Time leaders one after another, as a search does; return the median latency of each."""
    numbered, programs = candidates(name, leaders)
    alone: dict[str, list[float]] = {}
    with LocalCPU(sl.workloads.standard(name)[0], "cpu") as measurer:
        for _ in range(_PASSES):
            measurer.best_so_far = None
            for one in measurer.measure(programs):
                if one.ok:
                    alone.setdefault(numbered[one.id], []).append(one.latency)
    return {trace: statistics.median(latencies) for trace, latencies in alone.items()}


def timed_networks(paths: Sequence[str], rounds: int) -> dict[str, float]:
    """Time the network with the records of each database in turns; median seconds of a call."""
    scope: dict[str, Any] = {"__name__": "network"}
    exec(_TUNE_NETWORK, scope)  # the function that makes it
    network: sl.Network = scope["network"]()
    compiled = {path: sl.compile_network(network, database=path) for path in paths}
    (info,) = network.inputs
    data = np.random.default_rng(0).standard_normal(info.shape, np.float32)
    samples: dict[str, list[float]] = {path: [] for path in paths}
    for number in range(rounds + 1):
        for path, run in compiled.items():
            start = time.perf_counter()
            for _ in range(_CALLS):
                run(data)
            if number:
                samples[path].append((time.perf_counter() - start) / _CALLS)
    return {path: statistics.median(found) for path, found in samples.items()}


def study(
    name: str, roots: Mapping[str, Path], loads: Sequence[str], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Tune a workload beside all loads, and time what was found."""
    runs = itertools.product(range(args.seeds), ("quiet", *loads, "quiet again"), roots.items())
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed, beside, (side, root) in runs:
            path = Path(folder) / f"{len(rows)}.db"
            row = {"workload": name, "side": side, "beside": beside, "seed": seed}
            rows.append(row | tuned(root, name, beside, seed, path, args))
            if name == NETWORK:
                rows[-1] |= {"winner": str(path), "leaders": []}
            leaders = [one[0] for one in rows[-1]["leaders"]]
            alone = timed_alone(name, leaders) if leaders else {}
            rows[-1]["told"] = [
                [told is not None and told[0] >= 3, latency / alone[trace]]
                for trace, latency, told in rows[-1].pop("leaders")
                if trace in alone
            ]
        return judged(name, rows, args.rounds)


def judged(name: str, rows: list[dict[str, Any]], rounds: int) -> list[dict[str, Any]]:
    """Time the winners, and say how good each is."""
    winners = [row["winner"] for row in rows]
    if name == NETWORK:
        quiet = timed_networks(winners, rounds)
    else:
        quiet = timed_in_turns(name, winners, rounds)
    base: dict[tuple[str, int], float] = {}
    for row in rows:
        seconds = quiet[row.pop("winner")]
        row["quality"] = base.setdefault((row["side"], row["seed"]), seconds) / seconds
        row["winner"] = seconds
    return rows


def main() -> None:
    """Run the benchmark; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--workloads", nargs="+", default=WORKLOADS, choices=(*sl.workloads.names(), NETWORK)
    )
    parser.add_argument(
        "--loads", nargs="*", default=[one for one, others in LOADS.items() if others]
    )
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seconds", type=float, help="of each run, besides its trials")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--before", type=Path, help="another checkout, tuned with in turns")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="one workload and load, 8 trials")
    args = parser.parse_args()
    if args.quick:
        args.workloads, args.loads = args.workloads[:1], args.loads[:1]
        args.trials, args.rounds = 8, 5
    # Loads end with this process, also where it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    roots = {"now": ROOT} | ({} if args.before is None else {"before": args.before.resolve()})
    rows: list[dict[str, Any]] = []
    for name in args.workloads:
        rows += study(name, roots, args.loads, args)
        if args.json is not None:
            store({"cores": os.cpu_count(), "rows": rows}, args.json)
    print(
        f"{'workload':9}{'beside':13}{'side':8}{'winner, us':>11}{'quality':>8}{'seconds':>9}"
        "  claims undisturbed"
    )
    for row in rows:
        claim = [ratio for settled, ratio in row["told"] if settled]
        shared = statistics.median(claim) if claim else 1.0
        near, around = (sum(abs(one / by - 1) <= 0.1 for one in claim) for by in (1.0, shared))
        print(
            f"{row['workload']:9}{row['beside']:13}{row['side']:8}"
            f"{row['winner'] * 1e6:11.1f}{row['quality']:8.3f}"
            f"{row['seconds']:9.1f}  {len(claim)} of {len(row['told'])}, "
            f"{near} within 10%, {around} around {shared:.2f}"
        )
    print(f"\n{'':21}{'quality':>8}{'before / now':>14}{'the same of seconds':>21}")
    for side in roots:
        for beside in ("quiet", *args.loads, "quiet again"):
            found = [one for one in rows if (one["side"], one["beside"]) == (side, beside)]
            quality = statistics.geometric_mean(one["quality"] for one in found)
            print(
                f"{side:8}{beside:13}{quality:8.3f}{faster(rows, found, 'winner'):14.3f}"
                f"{faster(rows, found, 'seconds'):21.3f}"
            )


def faster(rows: Sequence[dict[str, Any]], found: Sequence[dict[str, Any]], what: str) -> float:
    """Return how much faster they are than those of the checkout before; NaN without it."""
    keys = ("workload", "beside", "seed")
    before = {tuple(one[key] for key in keys): one[what] for one in rows if one["side"] == "before"}
    if not before:
        return math.nan
    return statistics.geometric_mean(
        before[tuple(one[key] for key in keys)] / one[what] for one in found
    )


if __name__ == "__main__":
    main()
