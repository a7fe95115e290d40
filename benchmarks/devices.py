"""What a program gains from the records of another instruction set, beside the default schedule.

Each program is tuned for this machine restricted to another instruction set (AVX2). Then it is
looked up for the whole machine, which has no record of it: ``sl.best`` re-fits the schedules,
verifies them and races them against the default schedule. The table compares what it took with the
default schedule of the whole machine; both are verified and timed in turns. ``--own`` tunes for the
whole machine as well, with as many trials.

Target: at least the speed of the default in all rows. Two timings of one program differ by up to
3%, so a ratio from 0.97 on counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from _contest import ratio, show, summarise
from _race import hold_finals
from _results import store

import schedlang as sl
from schedlang.database import Database

LEAST = 0.97
QUICK = ("matmul 128", "SFM 512")


def programs() -> Mapping[str, sl.Workload]:
    """Return the programs by name; TBG is the first product of attention."""
    made = {f"matmul {size}": sl.workloads.matmul(size, size, size) for size in (128, 512, 1024)}
    standard = (
        *(("GMM", 1), ("C1D", 0), ("C2D", 1), ("C2D", 2), ("CBR", 1), ("DEP", 0), ("DEP", 2)),
        *(("T2D", 1), ("TBG", 0), ("SFM", 1), ("NRM", 1)),
    )
    for name, place in standard:
        workload = sl.workloads.standard(name)[place]
        sizes = ("512",) if name in ("SFM", "NRM") else map(str, workload.args[0].shape)
        made[f"{name} {'x'.join(sizes)}"] = workload
    return made


def compare(
    name: str, workload: sl.Workload, here: sl.Target, there: sl.Target, given: argparse.Namespace
) -> dict[str, Any]:
    """One row: what the look-up took, its time, and latencies by side."""
    call = {"trials": given.trials, "seed": given.seed, "progress": False}
    with Database() as database:
        sl.tune(workload, there, database=database, **call)
        start = time.perf_counter()
        found = sl.best(workload, database, here)
        seconds = time.perf_counter() - start
        again = sl.best(workload, database, here)
    if found is None:
        return {"name": name, "kind": None, "ratio": None, "seconds": seconds}
    entries = {
        "default": [sl.default_schedule(workload, here).mod],
        "taken": [found.schedule.mod],
    }
    if given.own:
        entries["own"] = [sl.tune(workload, here, **call).best.schedule.mod]
    standing = hold_finals(workload, here, entries)
    latency = {side: standing.latencies.get(side) for side in entries}
    return {
        "name": name,
        "kind": "unscheduled" if found.unscheduled else found.kind,
        "note": found.notes[0],
        "seconds": seconds,
        "stored": again is not None and again.record == found.record,
        "latency": latency,
        "ratio": ratio(latency["default"], latency["taken"]),
        "own ratio": ratio(latency["default"], latency.get("own")),
        "failures": {side: dict(failed) for side, failed in standing.failures.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help=f"{', '.join(QUICK)}; 8 trials")
    parser.add_argument("--programs", nargs="*", metavar="NAME", help="all by default")
    parser.add_argument("--trials", type=int, help="of each tuning, 48 by default")
    parser.add_argument("--there", default="x86/avx2", metavar="TARGET", help="tuned for")
    parser.add_argument("--own", action="store_true", help="tune for this machine, too")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int, help="all; 1 is less disturbed on a shared machine")
    parser.add_argument("--json", type=Path, help="write the figures here, after each program")
    given = parser.parse_args()
    given.trials = given.trials or (8 if given.quick else 48)
    here = sl.Target("cpu", cores=given.cores)
    there = sl.Target(given.there, cores=given.cores)
    there.check_present()
    if there.key == here.key:
        parser.error(f"--there {given.there}: that is the whole machine")
    known = programs()
    names = given.programs or (QUICK if given.quick else tuple(known))
    print(f"records of {there.key}, taken on {here.key}")
    print(f"{'':20} {'default us':>11} {'taken us':>9} {'speed':>6} {'own':>6} {'s':>5}  taken")
    rows: list[dict[str, Any]] = []
    for name in names:
        row = compare(name, known[name], here, there, given)
        rows.append(row)
        latency = row.get("latency", {})
        print(
            f"{name:20} {show(latency.get('default'), 11, 1, 1e6)} "
            f"{show(latency.get('taken'), 9, 1, 1e6)} {show(row['ratio'], 6)} "
            f"{show(row.get('own ratio'), 6)} {show(row['seconds'], 5, 1)}  {row['kind']}",
            *(f"{side}: {failed}" for side, failed in row.get("failures", {}).items()),
            flush=True,
        )
        if given.json:
            document = {"trials": given.trials, "here": here.key, "there": there.key, "rows": rows}
            store(document, given.json)
    found = [row["ratio"] for row in rows]
    mean, worst = summarise(found)
    kept = sum(one is not None and one >= LEAST for one in found)
    print(
        f"speed over the default's: {show(mean, 0)} (geometric mean), lowest {show(worst, 0)}; at "
        f"least {LEAST} in {kept} of {len(rows)} (target all)"
    )


if __name__ == "__main__":
    main()
