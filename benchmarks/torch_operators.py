"""Operators of torch with odd arguments, element types and special values, compared with torch.

Each case of ``tests/networks/operators/`` is imported and run unscheduled. It must compute what
torch computes, NaN, infinities and often the signs of zeros included, or be refused with an error
that names the operator and the line of the model. The exit code is 1 if a case is wrong or ends
with another error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from _outcomes import table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _results import store  # noqa: E402

from tests.networks.operators.catalogue import FAMILIES  # noqa: E402
from tests.networks.operators.judging import (  # noqa: E402
    EQUAL,
    REFUSED,
    UNTYPED,
    WRONG,
    Verdict,
    judge,
)

OUTCOMES = (EQUAL, REFUSED, WRONG, UNTYPED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="every tenth case")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with it in the name")
    parser.add_argument("--json", type=Path, help="write the counts and what was not equal")
    given = parser.parse_args()
    started = time.perf_counter()
    counts: dict[str, Counter[str]] = {}
    other: list[Verdict] = []
    for family, cases in FAMILIES.items():
        chosen = [case for case in cases if given.only in case.name][:: 10 if given.quick else 1]
        counts[family] = Counter()
        for verdict in judge(chosen):
            counts[family][verdict.outcome] += 1
            if verdict.outcome != EQUAL:
                other.append(verdict)
            if verdict.failed:
                print(f"{verdict.outcome}: {verdict.case.name}: {verdict.message}", flush=True)
    seconds = time.perf_counter() - started
    print(table(counts, OUTCOMES))
    print(f"{sum(sum(found.values()) for found in counts.values())} cases in {seconds:.0f} s")
    if given.json:
        document = {
            "seconds": round(seconds, 1),
            "counts": {family: dict(found) for family, found in counts.items()},
            **{
                outcome: sorted(one.case.name for one in other if one.outcome == outcome)
                for outcome in (REFUSED, WRONG, UNTYPED)
            },
        }
        store(document, given.json)
    return int(any(verdict.failed for verdict in other))


if __name__ == "__main__":
    sys.exit(main())
