"""Measure a large database: opening it, looking up the best record, storing durably, reading a run.

Fills a file with 100,000 records, each with a real trace of a random CPU schedule, of about 50
workloads. Target: the best of a workload in under 5 ms.

Durable means that a record survives a power cut: each transaction waits for the disk (fsync). The
disk dominates these figures, so the rate of plain fsyncs is reported too.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from _results import store

import schedlang as sl
from schedlang.database import (
    Database,
    Record,
    Rejections,
    Run,
    RunDetails,
    TrialDetails,
    history,
    merge,
    summary,
)
from schedlang.database.file import this_process
from schedlang.measurement import Status
from schedlang.measurement.clock import Phase
from schedlang.workloads import C1D, C2D, CBR, DEP, GMM, SFM

WORKLOADS = 50
TARGET_SECONDS = 5e-3
BATCH = 16
PROVENANCE = {
    "tvm": "0.27.0.post1",
    "llvm": "22.1.0",
    "python": "3.11.7",
    "schedlang": "0.1.0",
    "cpu": "AMD EPYC 9R14 96-Core Processor",
    "features": "+avx2,+avx512f,+avx512bw,+avx512vl,+avx512vnni,+avx512bf16,+fma",
}


def traces(each: int) -> list[tuple[str, str]]:
    """(name, trace as JSON) of random schedules of a few workloads."""
    space = sl.default_space()
    return [
        (make.__name__, space.sample(make(), seed=seed).trace.to_json())
        for make in (C1D, C2D, CBR, DEP, GMM, SFM)
        for seed in range(each)
    ]


def make_record(number: int, found: list[tuple[str, str]], rng: random.Random) -> Record:
    """A plausible record: one in six failed, ten samples each."""
    workload = rng.randrange(WORKLOADS)
    name, trace = found[number % len(found)]
    ok = rng.random() < 5 / 6
    latency = 10 ** rng.uniform(-5, -2)
    return Record(
        workload_key=f"{workload:016x}",
        workload_name=name,
        target_key="cpu-0123456789abcdef",
        toolchain_key="0123456789abcdef",
        trace_json=trace,
        status=Status.OK if ok else Status.RUN_TIMEOUT,
        samples=tuple(latency * rng.uniform(1.0, 1.05) for _ in range(10)) if ok else (),
        message="" if ok else "it ran for more than 10 s",
        verified=ok,
        search="auto",
        seed=0,
        created=1.7e9 + number,
        program_key=f"{rng.getrandbits(64):016x}",
        provenance=PROVENANCE,
        run_id=number // 1000 + 1,
        proposal=number % 1000,
    )


def seconds(call: Callable[[], object]) -> float:
    """Wall time of a call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def spread(calls: list[Callable[[], object]]) -> dict[str, float]:
    """Median and 99th percentile of the wall time of the calls, in seconds."""
    return quantiles([seconds(call) for call in calls])


def quantiles(times: list[float]) -> dict[str, float]:
    """Median and 99th percentile."""
    ordered = sorted(times)
    return {"median": statistics.median(ordered), "p99": ordered[int(0.99 * (len(ordered) - 1))]}


def sync_rate(folder: Path, count: int) -> float:
    """Return how many pages per second can be written and synced to this disk."""
    with (folder / "probe").open("wb") as file:

        def write() -> None:
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())

        return count / seconds(lambda: [write() for _ in range(count)])


def quick_check(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA quick_check(1)").fetchall()
    connection.close()


def begun() -> Run:
    """Make a run that this process has begun."""
    return Run("i", "w", "t", "c", "random", 0, created=1.7e9, owner=this_process())


def write_run(path: Path, found: list[tuple[str, str]], trials: int) -> list[float]:
    """Store a run of this many trials; return the seconds that the details of each batch took."""
    rng = random.Random(0)
    with Database(path) as database:
        run = database.add_run(begun())
        assert run.id is not None
        taken = []
        for first in range(0, trials, BATCH):
            batch = [
                dataclasses.replace(make_record(number, found, rng), run_id=run.id)
                for number in range(first, min(first + BATCH, trials))
            ]
            stored = database.append(batch)
            details = RunDetails(
                tuple(
                    TrialDetails(one.id or 0, n % 8, trial_phases(one.created))
                    for n, one in enumerate(stored)
                ),
                (Phase("search", 1.7e9, 1.7e9 + first + 1),),
                (Rejections("tile", "split", "C", "instruction", first + 1, "it does not fit"),),
            )
            taken.append(seconds(lambda d=details: database.add_details(run.id, d)))
        database.claim_run(run.id, run.owner, "")
    return taken


def trial_phases(end: float) -> tuple[Phase, ...]:
    """A build, a run and a verification."""
    return (
        Phase("build", end - 1.0, end - 0.5),
        Phase("run", end - 0.5, end - 0.1),
        Phase("verify", end - 0.1, end),
    )


def forget(path: Path) -> None:
    """Have the system drop what it keeps of a file in memory."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure(folder: Path, count: int, appends: int) -> dict[str, Any]:
    """All figures of a file with ``count`` records; times in seconds."""
    path = folder / "tune.db"
    rng = random.Random(0)
    found = traces(each=8)
    row: dict[str, Any] = {
        "records": count,
        "trace bytes": statistics.mean(len(trace) for _, trace in found),
    }
    keys: list[tuple[str, str]] = []
    with Database(path) as database:
        start = time.perf_counter()
        for first in range(0, count, 1000):
            numbers = range(first, min(first + 1000, count))
            stored = database.append(make_record(number, found, rng) for number in numbers)
            keys += [(record.workload_key, record.program_key) for record in stored[::50]]
        row["fill"] = time.perf_counter() - start
    row["file bytes"] = path.stat().st_size
    row["bytes a record"] = row["file bytes"] / count
    row["open, file in memory"] = statistics.median(
        seconds(lambda: Database(path).close()) for _ in range(3)
    )
    forget(path)
    row["open, file not in memory"] = seconds(lambda: Database(path).close())
    row["quick_check, file in memory"] = statistics.median(
        seconds(lambda: quick_check(path)) for _ in range(3)
    )
    with Database(path) as database:
        target = "cpu-0123456789abcdef"
        machine = (target, "0123456789abcdef")
        rng.shuffle(keys)
        asked = keys[:500]
        row["best"] = spread([lambda w=w: database.best(w, target) for w, _ in asked])
        row["best of toolchain"] = spread(
            [lambda w=w: database.best(w, *machine) for w, _ in asked]
        )
        row["ten best"] = spread([lambda w=w: database.best(w, target, n=10) for w, _ in asked])
        row["by program key"] = spread(
            [lambda w=w, p=p: database.query(w, *machine, program_key=p) for w, p in asked]
        )
        row["count a workload"] = spread(
            [lambda w=w: database.count(w, target) for w, _ in asked[:20]]
        )
        row["query a run"] = seconds(lambda: database.query(run_id=1))
        row["summary"] = seconds(lambda: summary(database))
        added = database.add_run(begun())
        for where, run_id in (("", added.id), (", no run", None)):
            for size in (1, 16):
                made = [
                    dataclasses.replace(make_record(count + n, found, rng), run_id=run_id)
                    for n in range(appends * size)
                ]
                batches = [made[n : n + size] for n in range(0, len(made), size)]
                taken = seconds(lambda b=batches: [database.append(batch) for batch in b])
                row[f"records a second, {size} a transaction{where}"] = len(made) / taken
        batches = [[f"{rng.getrandbits(64):016x}" for _ in range(16)] for _ in range(appends)]
        row["claim 16 programs"] = spread(
            [lambda b=batch: database.claim_programs(added.id, b) for batch in batches]
        )
        database.claim_run(added.id, added.owner, "")
        small = Database()
        small.append(
            dataclasses.replace(make_record(n, found, rng), run_id=None) for n in range(1000)
        )
        row["merge 1000"] = seconds(lambda: merge(small, database))
    trials = min(count, 10_000)
    row["details of 16 trials"] = quantiles(write_run(folder / "run.db", found, trials))
    row[f"history of {trials:,} trials"] = seconds(lambda: history(folder / "run.db"))
    run = history(folder / "run.db")
    row[f"data frame of {trials:,} trials"] = seconds(run.to_dataframe)
    row[f"trace file of {trials:,} trials"] = seconds(lambda: run.to_trace(folder / "trace.json"))
    row["fsyncs a second"] = sync_rate(folder, appends)
    return row


def show(row: dict[str, Any]) -> None:
    """Print the figures as a table."""
    for name, value in row.items():
        if isinstance(value, dict):
            text = f"{value['median'] * 1e3:9.3f} ms (p99 {value['p99'] * 1e3:.3f} ms)"
        elif name in ("records", "file bytes", "trace bytes", "bytes a record"):
            text = f"{value:9,.0f}"
        elif "a second" in name:
            text = f"{value:9.1f} /s"
        else:
            text = f"{value:9.3f} s"
        print(f"{name:42} {text}")
    verdict = "under" if row["best"]["median"] < TARGET_SECONDS else "NOT under"
    print(f"the best of a workload: {verdict} {TARGET_SECONDS * 1e3:g} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="2,000 records")
    parser.add_argument("--records", type=int, help="number of records; 100,000 by default")
    parser.add_argument("--folder", type=Path, help="folder, and so disk, of the file")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    count = arguments.records or (2_000 if arguments.quick else 100_000)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        row = measure(Path(folder), count, appends=20 if arguments.quick else 200)
    show(row)
    if arguments.json:
        store(row, arguments.json)


if __name__ == "__main__":
    main()
