"""Scripts that tune: without a main guard, in silence, and interrupted."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tvm import tirx
from tvm_ffi import structural_walk

import schedlang as sl

TUNE = """
import schedlang as sl
result = sl.tune(sl.workloads.matmul(64, 64, 64), trials={trials}, database={database!r})
print(len(result.records), result.best.record.verified)
"""


def test_a_script_without_a_main_guard_prints_nothing_of_ours(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """Nor does it when colours are forced, as some build services do: it is still no terminal."""
    script = tmp_path / "plain.py"
    script.write_text(TUNE.format(trials=2, database=None))
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment | {"FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("2 True\n", "")
    assert done.returncode == 0
    assert list(tmp_path.iterdir()) == [script]


@pytest.mark.usefixtures("hear_ctrl_c")
def test_ctrl_c_keeps_the_records_and_leaves_no_worker(
    tmp_path: Path,
    environment: dict[str, str],
    worker_pids: Callable[[int], set[int]],
    survivors: Callable[[set[int]], set[int]],
) -> None:
    path = tmp_path / "tune.db"
    script = tmp_path / "endless.py"
    script.write_text(TUNE.format(trials=10**6, database=str(path)))
    process = subprocess.Popen(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        before = wait_for_records(path, process, 5)
        workers = worker_pids(process.pid)
        # A terminal sends it to the whole foreground group.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert workers and survivors(workers) == set()
    assert "Traceback" not in err
    assert re.search(
        rf"endless.py:3: InterruptedWarning: tuning matmul was interrupted \(Ctrl-C\) after \d+ of "
        rf"{10**6} trials; the same call continues the run; this is the result so far\n",
        err,
    )
    assert process.returncode == 0
    workload = sl.workloads.matmul(64, 64, 64)
    with sl.open_database(path, read_only=True) as database:
        stored = database.query()
        assert database.workloads() == [(workload.key, "matmul")]
    assert len(stored) >= before >= 5
    records = [record for record in stored if record.search != "unscheduled"]
    assert out == f"{len(records)} True\n"
    for record in records:
        sl.Trace.from_json(record.trace_json).replay(workload)


@pytest.mark.usefixtures("hear_ctrl_c")
def test_ctrl_c_before_anything_was_measured_is_raised(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    script = tmp_path / "waiting.py"
    script.write_text(
        """
import time
import schedlang as sl
class Waiting:
    def measure(self, candidates):
        print("begun", flush=True)
        time.sleep(600)
try:
    sl.tune(sl.workloads.matmul(8, 8, 8), trials=2, measurer=Waiting())
except KeyboardInterrupt:
    print("raised")
"""
    )
    process = subprocess.Popen(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        os.killpg(process.pid, signal.SIGINT)
        assert process.communicate(timeout=60) == ("raised\n", "")
    finally:
        process.kill()


def test_ctrl_c_in_a_callback_of_tvm_is_no_error_of_tvm() -> None:
    """TVM's FFI knows some exceptions by name, and makes a RuntimeError of every other one."""

    def interrupt(loop: tirx.For) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        structural_walk(sl.workloads.matmul(8, 8, 8).func.body, (tirx.For, interrupt))


def wait_for_records(path: Path, process: subprocess.Popen[str], count: int) -> int:
    """Until another process has written ``count`` records; how many there are then."""
    while process.poll() is None:
        time.sleep(0.1)
        try:
            with sl.open_database(path, read_only=True) as database:
                found = database.count()
        except sl.DatabaseError:
            continue  # it is being made
        if found >= count:
            return found
    raise AssertionError(f"the script ended: {process.communicate()}")
