"""Every primitive at random places, and chains of them, compared with numpy.

One to four primitives are applied to small programs (``tests/tvm/primitives/``): loops and blocks,
extents that no tile divides, reductions, paddings, layouts, and types. What ``Schedule`` accepts
is compiled and run; a schedule that ends its process counts as wrong. The exit code is 1 if one
is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from _outcomes import table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _results import store  # noqa: E402

from tests.tvm.primitives.check import (  # noqa: E402
    ACCEPTED,
    NOT_COMPILED,
    OUTCOMES,
    REFUSED,
    RIGHT,
    WRONG,
    Case,
    case,
)
from tests.tvm.primitives.steps import STEPS  # noqa: E402

_SECONDS = 120.0
"""For one schedule; a program that runs longer is wrong."""


def cases(seed: int, first: int, last: int, step: int) -> Iterator[Case]:
    """Run schedules in other processes; each that ends its process is one that is wrong."""
    while first < last:
        given = ["--worker", str(first), str(last), str(step), "--seed", str(seed)]
        with subprocess.Popen(
            [sys.executable, __file__, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # TVM's printer warns of what it renames
            bufsize=0,
        ) as worker:
            assert worker.stdout is not None
            for line in _lines(worker):
                found = Case(**json.loads(line))
                found.tried = Counter(found.tried)
                yield found
                first = found.number + step
        if first < last:
            yield Case(first, "unknown", outcome=WRONG, code="the process ended")
            first += step


def abreast(seed: int, first: int, last: int, step: int, jobs: int) -> Iterator[Case]:
    """Run the schedules ``jobs`` at a time, each job every ``jobs``-th; yield them as they end."""
    found: queue.SimpleQueue[Case | None] = queue.SimpleQueue()

    def run(job: int) -> None:
        try:
            for one in cases(seed, first + job * step, last, step * jobs):
                found.put(one)
        finally:
            found.put(None)

    with ThreadPoolExecutor(jobs) as pool:
        ends = [pool.submit(run, job) for job in range(jobs)]
        for _ in ends:
            yield from iter(found.get, None)
        for end in ends:
            end.result()


def _lines(worker: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield what a worker writes, and kill it when it writes nothing for too long."""
    assert worker.stdout is not None
    waiting = b""
    with selectors.DefaultSelector() as selector:
        selector.register(worker.stdout, selectors.EVENT_READ)
        while selector.select(_SECONDS):
            read = os.read(worker.stdout.fileno(), 1 << 16)
            if not read:
                return
            *lines, waiting = (waiting + read).split(b"\n")
            yield from lines
    worker.kill()


def work(seed: int, first: int, last: int, step: int) -> None:
    """Print the cases as JSON, one a line."""
    out = os.dup(1)
    os.dup2(2, 1)
    for number in range(first, last, step):
        os.write(out, (json.dumps(vars(case(seed, number))) + "\n").encode())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="200 schedules")
    parser.add_argument("--schedules", type=int, default=10_500, help="number of schedules")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--step", type=int, default=1, help="every how many-th one is run")
    parser.add_argument("--jobs", type=int, default=1, help="number of them at a time")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the counts and what was not right")
    parser.add_argument("--worker", type=int, nargs=3, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        work(given.seed, *given.worker)
        return 0
    started = time.perf_counter()
    counts = {name: Counter[str]() for name in STEPS}
    totals: Counter[str] = Counter()
    failed: list[Case] = []
    last = 200 if given.quick else given.schedules

    def write() -> None:
        if given.json:
            document = {
                "seconds": round(time.perf_counter() - started, 1),
                "seed": given.seed,
                "schedules": dict(totals),
                "primitives": {name: dict(one) for name, one in counts.items()},
                "failed": [vars(one) for one in failed],
            }
            store(document, given.json)

    for found in abreast(given.seed, given.first, last, given.step, given.jobs):
        totals[found.outcome] += 1
        for key, times in found.tried.items():
            name, outcome = key.rsplit(" ", 1)
            counts[name][outcome] += times
        for name in set(found.steps):
            counts[name][found.outcome] += 1
        if found.outcome not in (RIGHT, REFUSED):
            failed.append(found)
            print(found.outcome, found.number, found.program, found.steps, flush=True)
        if sum(totals.values()) % 100 == 0:
            write()
    write()
    print(table(counts, (ACCEPTED, REFUSED, RIGHT, NOT_COMPILED, WRONG)))
    summary = ", ".join(f"{totals[outcome]} {outcome}" for outcome in OUTCOMES)
    print(f"{sum(totals.values())} schedules in {time.perf_counter() - started:.0f} s: {summary}")
    return int(totals[WRONG] > 0)


if __name__ == "__main__":
    sys.exit(main())
