"""What a program gains from the records of another of the same kin key, that is of other shapes.

For each kin: one program is tuned with 32 trials. Each of the others is tuned with 8 trials, once
with the records of the first and once from nothing. The best programs of both are timed
alternately; the figure is the latency without transfer over the latency with it.

The convolutions are those of ResNet-50 (NHWC, batch norm, ReLU); ``--networks`` takes the tasks of
networks instead (needs torch, see ``networks.py``).

Target: geometric mean above 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from _contest import ratio, show, summarise
from _race import hold_finals
from _results import store

import schedlang as sl
from schedlang.database import Database

# Height, width, input and output channels, kernel, stride, padding.
RESNET = (
    (28, 28, 128, 128, 3, 1, 1),
    (56, 56, 64, 64, 3, 1, 1),
    (14, 14, 256, 256, 3, 1, 1),
    (7, 7, 512, 512, 3, 1, 1),
    (56, 56, 128, 128, 3, 2, 1),
    (56, 56, 64, 256, 1, 1, 0),
    (28, 28, 512, 128, 1, 1, 0),
    (14, 14, 256, 1024, 1, 1, 0),
)


def convolutions() -> Iterator[tuple[str, sl.Workload]]:
    """Yield name and program of the built-in convolutions."""
    for shape in RESNET:
        yield " ".join(map(str, shape)), sl.workloads.CBR(*shape)


def tasks(networks: Sequence[str]) -> Iterator[tuple[str, sl.Workload]]:
    """Yield name and program of the tasks of networks that compute something."""
    from network_rows.models import make

    for name in networks:
        model = make(name)
        for task in sl.import_network(model.module, model.examples).tasks:
            if not task.moves_data:
                yield f"{name} {task.name}", task.workload


def compare(
    name: str, workload: sl.Workload, database: Database, given: argparse.Namespace
) -> dict[str, Any]:
    """One row; the database is left with what it had."""
    target = sl.Target("cpu", cores=given.cores)
    call = {"trials": given.later, "seed": given.seed, "progress": False, "finals": 0}
    last = max((record.id or 0 for record in database.query()), default=0)
    found = {
        "with": sl.tune(workload, target, database=database, **call),
        "without": sl.tune(workload, target, **call),
    }
    for run in database.runs():
        if run.workload_key == workload.key:
            database.delete_run(run.id or 0)
    database.delete(record.id or 0 for record in database.query(after=last))
    entries = {side: [result.best.schedule.mod] for side, result in found.items()}
    standing = hold_finals(workload, target, entries)
    latency = {side: standing.latencies.get(side) for side in entries}
    first = {
        side: next((r.latency for r in result.records if r.ok and not r.unscheduled), None)
        for side, result in found.items()
    }
    return {
        "name": name,
        "latency": latency,
        "ratio": ratio(latency["without"], latency["with"]),
        "first": first,
        "first ratio": ratio(first["without"], first["with"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two programs, 8 and 4 trials")
    parser.add_argument("--networks", nargs="*", default=[], metavar="NAME", help="mobilenet-v2")
    parser.add_argument("--each", type=int, help="programs of a kin besides the first; all")
    parser.add_argument("--first", type=int, help="trials of the first program, 32")
    parser.add_argument("--later", type=int, help="trials of the others, 8")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cores", type=int, help="all; 1 is less disturbed on a shared machine")
    parser.add_argument("--json", type=Path, help="write the figures here, after each program")
    given = parser.parse_args()
    given.first = given.first or (8 if given.quick else 32)
    given.later = given.later or (4 if given.quick else 8)
    kin: dict[str, list[tuple[str, sl.Workload]]] = {}
    chosen = tasks(given.networks) if given.networks else convolutions()
    for name, workload in list(chosen)[: 2 if given.quick else None]:
        kin.setdefault(workload.kin_key, []).append((name, workload))
    rows: list[dict[str, Any]] = []
    for (first, workload), *others in kin.values():
        if not others:
            continue
        print(f"{first}: {given.first} trials", flush=True)
        database = Database()
        sl.tune(
            workload,
            sl.Target("cpu", cores=given.cores),
            trials=given.first,
            seed=given.seed,
            database=database,
            progress=False,
        )
        for name, other in others[: given.each]:
            row = compare(name, other, database, given) | {"from": first}
            rows.append(row)
            print(
                f"  {name:44} without over with: first {show(row['first ratio'], 0)}, "
                f"best of {given.later} {show(row['ratio'], 0)}",
                flush=True,
            )
            if given.json:
                document = {"first": given.first, "later": given.later, "rows": rows}
                store(document, given.json)
    mean, worst = summarise([row["ratio"] for row in rows])
    start, _ = summarise([row["first ratio"] for row in rows])
    print(
        f"without over with, geometric means: first program {show(start, 0)}; best "
        f"{show(mean, 0)} (target above 1), lowest {show(worst, 0)}"
    )


if __name__ == "__main__":
    main()
