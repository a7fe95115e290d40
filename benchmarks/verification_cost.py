"""What verification costs: its part of the wall time of a tuning run.

Each workload is tuned with verification, and without it as a peer, one run after the other. The
workers say how long they spend on each part of verification, so that its share comes from one run:
what else the machine does affects both terms alike. The wall times of both runs do not compare as
well, because the runs propose and verify other candidates from the first noisy latency on.

The parts, in seconds of a run:

* **references**: the right results on all draws; the mean of the workers, which find them at the
  same time, each for itself;
* **fill**: inputs of other draws, and what outputs hold before a call;
* **poison**: overwriting workspaces before first calls;
* **other draws**: calls on the draws that the first call did not have;
* **compare**: outputs with the right results, inputs and guards with what they were;
* **repeats**: further calls of candidates that could win;
* **finals**: all of these in the finals.

The first call of a candidate is no part of it, as timing needs one too.

Target: verification is less than 5% of each run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _results import store

import schedlang as sl
from schedlang.targets import LocalCPU

NAMES = ("GMM", "C2D", "DEP", "SFM")
PARTS = ("references", "fill", "poison", "other draws", "compare", "repeats", "finals")
LIMIT = 0.05


class Watched(LocalCPU):
    """Notes what verification costs in the finals."""

    in_finals: Mapping[str, float] = {}

    def remeasure(self, *arguments: Any, **options: Any) -> Any:
        before = dict(self.verification)
        try:
            return super().remeasure(*arguments, **options)
        finally:
            spent = {part: now - before.get(part, 0.0) for part, now in self.verification.items()}
            self.in_finals = {
                part: seconds + self.in_finals.get(part, 0.0) for part, seconds in spent.items()
            }


def tune(name: str, trials: int, seed: int, *, verify: bool) -> dict[str, Any]:
    """Tune once; return the seconds of the run and of the parts of verification."""
    workload = sl.workloads.get(name)
    start = time.perf_counter()
    with Watched(workload, "cpu", verify=verify) as measurer:
        result = sl.tune(workload, trials=trials, seed=seed, measurer=measurer, progress=False)
        seconds = time.perf_counter() - start
        parts = {
            part: measurer.verification.get(part, 0.0) - measurer.in_finals.get(part, 0.0)
            for part in PARTS
        }
        parts["references"] /= measurer.target.cores
        parts["finals"] = sum(measurer.in_finals.values())
    verified = sum(record.verified for record in result.records)
    return {
        "seconds": seconds,
        "verified": verified,
        "parts": parts,
        "split": dict(result.time_split),
    }


def compare(name: str, trials: int, seed: int) -> dict[str, Any]:
    """One row: a run with verification and one without."""
    found = tune(name, trials, seed, verify=True)
    peer = tune(name, trials, seed, verify=False)
    cost = sum(found["parts"].values())
    return {
        "workload": name,
        "seed": seed,
        "trials": trials,
        "seconds": found["seconds"],
        "seconds without": peer["seconds"],
        "verified": found["verified"],
        "verification": cost,
        "share": cost / found["seconds"],
        "parts": found["parts"],
        "time split": found["split"],
        "time split without": peer["split"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="16 trials of GMM")
    parser.add_argument("--workloads", nargs="+", default=list(NAMES))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    names = ["GMM"] if arguments.quick else arguments.workloads
    trials = 16 if arguments.quick else arguments.trials
    seeds = [0] if arguments.quick else arguments.seeds
    rows: list[dict[str, Any]] = []
    print("                                    seconds of verification, by part")
    print(
        "workload seed  seconds  without  " + " ".join(f"{part:>11}" for part in PARTS) + "  share"
    )
    for name in names:
        for seed in seeds:
            row = compare(name, trials, seed)
            rows.append(row)
            print(
                f"{name:8} {seed:4} {row['seconds']:8.2f} {row['seconds without']:8.2f}  "
                + " ".join(f"{row['parts'][part]:11.3f}" for part in PARTS)
                + f"  {row['share']:5.1%}",
                flush=True,
            )
            if arguments.json:  # after each row: an interrupted run keeps what it measured
                store(summarize(rows), arguments.json)
    worst = max(row["share"] for row in rows)
    print(f"largest share {worst:.1%} (target: below {LIMIT:.0%})")


def summarize(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What the JSON file holds: the share of each workload's runs together, and all rows."""
    shares = {}
    for name in dict.fromkeys(row["workload"] for row in rows):
        of = [row for row in rows if row["workload"] == name]
        shares[name] = sum(row["verification"] for row in of) / sum(row["seconds"] for row in of)
    return {"shares": shares, "limit": LIMIT, "rows": rows}


if __name__ == "__main__":
    main()
