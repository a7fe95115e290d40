"""Random programs: schedules of the default space, checked with numpy and by the measurer.

Each program of ``tests/trust/fuzz/`` (einsums, convolutions, poolings, reductions of tuples,
updates in place, gathers; all element types; primes and ones) gets some schedules of the target's
default space. Each different schedule is measured with verification, then called on other inputs,
and compared with numpy. Four things are failures:

* ``accepted wrong``: the measurer accepted a program that numpy refutes;
* ``refused wrong``: the measurer refused it, but the space should not have made it;
* ``refused right``: the measurer refused a program that numpy confirms;
* ``not made``: the space raised an error.

The exit code is 1 if there are any. Each is printed with the numbers that reproduce it:
``--seed S --first N --programs 1``.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _results import store  # noqa: E402

import schedlang as sl  # noqa: E402
from tests.trust.fuzz.check import Checked, check  # noqa: E402
from tests.trust.gauntlet import measurer  # noqa: E402

_PROGRAMS_A_PROCESS = 20


def check_some(seed: int, first: int, programs: int, samples: int) -> list[Checked]:
    """Check programs in this process, with one measurer for all."""
    with measurer(seed) as bench:
        return [check(bench, seed, first + n, samples) for n in range(programs)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="100 candidates")
    parser.add_argument("--candidates", type=int, default=10_000, help="different schedules")
    parser.add_argument("--programs", type=int, help="number of programs, instead of candidates")
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--samples", type=int, default=16, help="schedules drawn for a program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes that check programs")
    parser.add_argument("--json", type=Path, help="write the findings to this file")
    given = parser.parse_args()
    wanted = 100 if given.quick else given.candidates
    started = time.perf_counter()
    candidates = programs = 0
    findings = []
    with ProcessPoolExecutor(
        given.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        running: dict[Future[list[Checked]], tuple[int, int]] = {}
        following = given.first
        last = None if given.programs is None else given.first + given.programs

        def begin() -> None:
            nonlocal following
            count = _PROGRAMS_A_PROCESS
            if last is not None:
                count = min(count, last - following)
            if count > 0:
                future = pool.submit(check_some, given.seed, following, count, given.samples)
                running[future] = following, count
                following += count

        for _ in range(given.jobs):
            begin()
        while running:
            done = next(as_completed(running))
            first, count = running.pop(done)
            try:
                results = done.result()
            except BrokenProcessPool:
                print(f"a process died in programs {first} to {first + count - 1}")
                return 1
            for result in results:
                programs += 1
                candidates += result.candidates
                findings += result.findings
                for finding in result.findings:
                    print(finding, flush=True)
            print(
                f"{candidates} candidates of {programs} programs, {len(findings)} findings, "
                f"{time.perf_counter() - started:.0f} s",
                file=sys.stderr,
                flush=True,
            )
            if last is not None or candidates < wanted:
                begin()
    kinds = Counter(finding.kind for finding in findings)
    counts = ", ".join(
        f"{kinds[kind]} {kind}"
        for kind in ("accepted wrong", "refused wrong", "refused right", "not made")
    )
    print(f"{candidates} candidates of {programs} programs: {counts}")
    if given.json is not None:
        document = {
            "target": sl.Target("cpu").key,
            "seed": given.seed,
            "programs": programs,
            "candidates": candidates,
            "seconds": round(time.perf_counter() - started, 1),
            "findings": [asdict(finding) for finding in findings],
        }
        store(document, given.json)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
