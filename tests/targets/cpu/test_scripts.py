"""Whole programs that use schedlang: what a user's script, and its death, must and must not do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

MEASURE = """
import sys
from schedlang.measurement import Candidate
from schedlang.targets import LocalCPU
from tests.targets import programs

workload = programs.matmul()
measurer = LocalCPU(workload, workers=1, run_timeout=600)
"""


@pytest.mark.slow
def test_a_script_without_a_main_guard(tmp_path: Path, environment: dict[str, str]) -> None:
    script = tmp_path / "script" / "plain.py"
    script.parent.mkdir()
    script.write_text(
        MEASURE
        + "for m in measurer.measure([Candidate(7, programs.scheduled_matmul(workload))]):\n"
        + "    print(m.id, m.status, m.verified, m.message)\n"
    )
    # Not to be imported by the worker, which starts in the user's folder.
    (tmp_path / "json.py").write_text("raise SystemExit('the wrong json')")
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.stdout == "7 ok True \n", done.stderr
    assert done.returncode == 0


@pytest.mark.slow
def test_a_script_that_comes_through_standard_input(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    """As in a REPL or a notebook, there is no file that a worker could import."""
    lines = (
        MEASURE
        + "good = programs.scheduled_matmul(workload)\n"
        + "print([m.status.value for m in measurer.measure([Candidate(7, good)])])\n"
    )
    for interactive in ([], ["-i"]):
        done = subprocess.run(
            [sys.executable, *interactive, "-"],
            input=lines,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.stdout == "['ok']\n", done.stderr
        assert done.returncode == 0


def test_a_killed_parent_leaves_no_orphan(
    tmp_path: Path,
    environment: dict[str, str],
    worker_pids: Callable[[int], set[int]],
    survivors: Callable[[set[int]], set[int]],
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        MEASURE
        + "for m in measurer.measure([Candidate(1, programs.scheduled_matmul(workload))]):\n"
        + "    print('measuring', flush=True)\n"
        + "list(measurer.measure([Candidate(2, programs.from_body(programs.SLEEP))]))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, script], cwd=tmp_path, env=environment, stdout=subprocess.PIPE
    )
    try:
        assert parent.stdout is not None and parent.stdout.readline() == b"measuring\n"
        workers = worker_pids(parent.pid)
        assert len(workers) == 1
        time.sleep(0.5)  # into the native call, where no Python runs
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.communicate()
    assert survivors(workers) == set()


@pytest.mark.slow
@pytest.mark.usefixtures("hear_ctrl_c")
def test_ctrl_c_ends_it_cleanly(
    tmp_path: Path,
    environment: dict[str, str],
    worker_pids: Callable[[int], set[int]],
    survivors: Callable[[set[int]], set[int]],
) -> None:
    script = tmp_path / "interrupted.py"
    script.write_text(
        MEASURE
        + "good = programs.scheduled_matmul(workload)\n"
        + "sleep = programs.from_body(programs.SLEEP)\n"
        + "try:\n"
        + "    for m in measurer.measure([Candidate(1, good), Candidate(2, sleep)]):\n"
        + "        print(m.id, m.status, flush=True)\n"
        + "except KeyboardInterrupt:\n"
        + "    print('interrupted', [m.status for m in measurer.measure([Candidate(3, good)])])\n"
    )
    script_process = subprocess.Popen(
        [sys.executable, script],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert script_process.stdout is not None
        first = script_process.stdout.readline()
        workers = worker_pids(script_process.pid)
        time.sleep(0.5)  # into the native call
        # A terminal sends it to the whole foreground group.
        os.killpg(script_process.pid, signal.SIGINT)
        rest, _ = script_process.communicate(timeout=60)
    finally:
        script_process.kill()
    assert first == "1 ok\n" and len(workers) == 1
    assert rest == "interrupted [<Status.OK: 'ok'>]\n"
    assert script_process.returncode == 0
    assert survivors(workers) == set()


def test_a_parallel_loop_runs_on_every_core(tmp_path: Path, environment: dict[str, str]) -> None:
    script = tmp_path / "threads.py"
    script.write_text(
        """
import json
import os
import os
import numpy as np
from schedlang.targets import Target, build_callable
from tests.targets.programs import from_body

body = '''
for i in T.parallel(64):
    with T.sblock("B"):
        vi = T.axis.spatial(64, i)
        B[vi] = T.call_extern("int32", "gettid")
'''
mask = os.sched_getaffinity(0)
ids = np.zeros(64, np.int32)
module = from_body(body, 'B: T.Buffer((64,), "int32")')
build_callable(module, "cpu")(ids)
threads = len(set(ids.tolist()))
build_callable(module, Target("cpu", cores=1))(ids)
print(json.dumps([threads, Target("cpu").cores, mask == os.sched_getaffinity(0)]))
"""
    )
    done = subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, check=True
    )
    threads, cores, mask_kept = json.loads(done.stdout)
    assert threads == cores
    assert mask_kept
