"""Indices with ``//`` and ``%`` under every schedule, compared with numpy.

Random programs of the grammar in ``tests/tvm/indices/`` (two levels of divisions, offsets of both
signs, two axes, gathers, int32 and int64) are compiled unscheduled, under each kind of schedule,
and with a sample of the default space. A schedule that does not apply is counted as refused. The
exit code is 1 if a program computes something else than numpy, or does not compile.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from _outcomes import table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _results import store  # noqa: E402

from tests.tvm.indices.check import NOT_COMPILED, OUTCOMES, WRONG, Case, cases  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 programs")
    parser.add_argument("--programs", type=int, default=170, help="number of programs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the counts and what was not right")
    given = parser.parse_args()
    started = time.perf_counter()
    counts: dict[str, Counter[str]] = {}
    failed: list[Case] = []
    for case in cases(given.seed, range(20 if given.quick else given.programs)):
        counts.setdefault(case.schedule, Counter())[case.outcome] += 1
        if case.outcome in (WRONG, NOT_COMPILED):
            failed.append(case)
            print(case, flush=True)
    seconds = time.perf_counter() - started
    print(table(counts, OUTCOMES))
    print(f"{sum(sum(found.values()) for found in counts.values())} cases in {seconds:.0f} s")
    if given.json:
        document = {
            "seconds": round(seconds, 1),
            "seed": given.seed,
            "counts": {schedule: dict(found) for schedule, found in counts.items()},
            "failed": [asdict(case) for case in failed],
        }
        store(document, given.json)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
