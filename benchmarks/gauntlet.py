"""Wrong programs that must be refused, and odd right ones that must be accepted.

Each program of ``tests/trust/`` goes through the measurer as in a tuning run, with every result
verified: it is measured, and what passes, and may be wrong in some calls only, is measured again as
a finalist. All of them do so with one seed after another, which changes the random inputs, until
``--tries`` wrong and as many right programs were measured in all.

Programs that are beyond the limits of verification, which docs/trust.md states, are tried as well
and counted apart. The exit code is 1 if another wrong program was accepted or a right one refused.
``--json`` writes what
``python -m tests.trust.table`` puts into results/gauntlet.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from _results import store  # noqa: E402

import schedlang as sl  # noqa: E402
from tests.trust.catalogue import SUBJECTS  # noqa: E402
from tests.trust.gauntlet import Verdict, judge, measurer  # noqa: E402
from tests.trust.open_attacks import OPEN  # noqa: E402


@dataclass
class Line:
    """What came of one program in all tries."""

    subject: str
    attack: str
    right: bool
    tries: int = 0
    failures: int = 0
    by: Counter[str] = field(default_factory=Counter)
    message: str = ""

    @property
    def beyond(self) -> bool:
        """Whether it is a wrong program that verification cannot be expected to find out."""
        return self.attack in OPEN

    def take(self, verdict: Verdict) -> None:
        """Add a try."""
        self.tries += 1
        self.failures += verdict.failed
        self.by[verdict.by or "accepted"] += 1
        if verdict.failed:
            self.message = verdict.message


def run(tries: int, first_seed: int, workers: int, only: str) -> tuple[list[Line], int]:
    """Try the programs until there are enough tries; return the lines and the number of seeds."""
    lines: dict[tuple[str, str], Line] = {}
    tried = {True: 0, False: 0}
    seed = first_seed
    while needed := {right for right, count in tried.items() if count < tries}:
        before = dict(tried)
        with measurer(seed, workers) as bench:
            for subject in SUBJECTS.values():
                chosen = [
                    attack
                    for attack in subject.attacks
                    if attack.right in needed and only in f"{subject.name}: {attack.name}"
                ]
                for verdict in judge(bench, subject, chosen) if chosen else ():
                    key = verdict.subject, verdict.attack
                    line = lines.setdefault(key, Line(*key, verdict.right))
                    line.take(verdict)
                    tried[verdict.right] += not line.beyond
        seed += 1
        failures = sum(line.failures for line in lines.values() if not line.beyond)
        print(
            f"seed {seed - 1}: {tried[False]} wrong and {tried[True]} right ones so far, "
            f"{failures} failures",
            file=sys.stderr,
            flush=True,
        )
        if tried == before:
            break
    return list(lines.values()), seed - first_seed


def count(lines: list[Line]) -> str:
    """Return failures and tries as text."""
    return f"{sum(line.failures for line in lines)} of {sum(line.tries for line in lines)}"


def table(lines: list[Line]) -> str:
    """The lines as text: subject, program, how it ended, failures of tries."""
    rows = []
    for line in sorted(lines, key=lambda line: line.right):
        ended = ", ".join(f"{count} {by}" for by, count in line.by.most_common())
        rows.append(
            f"{'right' if line.right else 'wrong':6}{line.subject:28}{line.attack:48}"
            f"{line.failures:4} of {line.tries:<5}{ended}"
        )
    heading = f"{'':6}{'workload':28}{'program':48}{'failures':13}ended as"
    return "\n".join([heading, *rows])


def document(lines: list[Line], seeds: int, seconds: float) -> dict[str, Any]:
    """The table as JSON."""
    return {
        "target": sl.Target("cpu").key,
        "seeds": seeds,
        "seconds": round(seconds, 1),
        "programs": [
            {
                "subject": line.subject,
                "attack": line.attack,
                "right": line.right,
                "tries": line.tries,
                "failures": line.failures,
                "by": dict(line.by),
            }
            for line in lines
        ],
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="each program once")
    parser.add_argument("--tries", type=int, default=1000, help="of wrong and of right programs")
    parser.add_argument("--seed", type=int, default=0, help="of the first try's inputs")
    parser.add_argument("--workers", type=int, default=2, help="processes that build programs")
    parser.add_argument("--only", default="", metavar="TEXT", help="programs with it in the name")
    parser.add_argument("--json", type=Path, help="write the table to this file")
    given = parser.parse_args()
    started = time.perf_counter()
    lines, seeds = run(1 if given.quick else given.tries, given.seed, given.workers, given.only)
    seconds = time.perf_counter() - started
    print(table(lines))
    within = [line for line in lines if not line.beyond]
    failed = [line for line in within if line.failures]
    for line in failed:
        print(f"{line.subject}: {line.attack}: {line.message or 'accepted'}")
    wrong, right = (
        count([line for line in within if line.right == right]) for right in (False, True)
    )
    print(f"wrong programs accepted: {wrong}; right programs refused: {right}; {seconds:.0f} s")
    print(f"beyond the limits, accepted: {count([line for line in lines if line.beyond])}")
    if given.json is not None:
        store(document(lines, seeds, seconds), given.json)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
