"""Several processes tune into one file at once."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from schedlang.database import Database
from tests.crash.tuner import CONTEXT, tune_for

# SCHEDLANG_SOAK_SECONDS=60 pytest tests/crash/test_two_processes.py
SECONDS = float(os.environ.get("SCHEDLANG_SOAK_SECONDS", "5"))
WORKLOADS = (("GMM", {"n": 16, "m": 16, "k": 16}), ("SFM", {"m": 8, "n": 8}))
TRIALS = 24


def test_two_processes_tune_different_workloads_into_one_file(tmp_path: Path) -> None:
    path = tmp_path / "tune.db"
    processes = [
        CONTEXT.Process(
            target=tune_for,
            args=(path, {"workload": one, "trials": TRIALS, "search": "random"}, SECONDS),
        )
        for one in WORKLOADS
    ]
    for process in processes:
        process.start()
    with Database(path, busy_seconds=60) as database:
        reads = 0
        while any(process.is_alive() for process in processes):
            assert len(database.query(limit=50)) <= 50  # reading goes on all the time
            reads += 1
            processes[0].join(0.05)
        assert [process.exitcode for process in processes] == [0, 0], "see its traceback"
        assert reads > SECONDS
        records = database.query()
        runs = database.runs()
        programs = Counter((r.workload_key, r.program_key) for r in records)
        assert set(programs.values()) == {1}, "a program was measured twice"
        assert {r.workload_name for r in records} == {"GMM", "SFM"}
        # Every run is through, and all it measured is there.
        assert all(run.outcome for run in runs)
        for run in runs:
            # The unscheduled program, which each run measures besides, is no proposal.
            mine = [r.proposal for r in records if r.run_id == run.id]
            own = [number for number in mine if number is not None]
            assert len(own) == len(set(own)) <= TRIALS


def test_two_processes_on_one_workload_measure_each_program_once(tmp_path: Path) -> None:
    """Both want the same programs, in the same order."""
    path = tmp_path / "tune.db"
    call = {"workload": WORKLOADS[0], "trials": 3 * TRIALS, "search": "grid"}
    processes = [
        CONTEXT.Process(target=tune_for, args=(path, call | {"seed": seed}, 0.0, 0.005))
        for seed in (0, 1)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0], "see its traceback"
    with Database(path, read_only=True) as database:
        programs = Counter(one.program_key for one in database.query() if not one.unscheduled)
        assert len(database.runs()) == 2
    assert set(programs.values()) == {1}, "a program was measured twice"
    assert len(programs) >= 3 * TRIALS
