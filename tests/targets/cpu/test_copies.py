"""Candidates that make copies of their worker, or start other programs in it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator

import pytest

from schedlang.host import children_of
from schedlang.measurement import Candidate, Status
from schedlang.targets import LocalCPU, TimingPolicy
from schedlang.targets.errors import Fault
from schedlang.targets.worker.process_state import no_new_processes
from tests.targets.programs import COPIES, from_body, matmul

QUICK = TimingPolicy(min_repeats=1, max_repeats=2)
ZEROS = """
for i, j in T.grid(64, 64):
    C[i, j] = T.float32(0)
"""
FORKS = {"fork": "T.call_extern('int32', 'fork')"}
if sys.platform == "linux" and platform.machine() == "x86_64":
    # The system call itself, of which the C library knows nothing.
    FORKS["system call"] = "T.call_extern('int64', 'syscall', 57)"


@pytest.fixture(scope="module")
def measurer() -> Iterator[LocalCPU]:
    with LocalCPU(matmul(), workers=1, verify="all", timing=QUICK) as measurer:
        yield measurer


@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize("fork", FORKS)
def test_copies_of_a_worker_answer_for_no_other_candidate(fork: str, measurer: LocalCPU) -> None:
    """The copies verify a right product; before, their replies were credited to the zeros."""
    attack = from_body(COPIES.format(fork=FORKS[fork]))
    zeros = from_body(ZEROS)
    candidates = [Candidate(0, attack), *(Candidate(n, zeros) for n in range(1, 9))]
    found = {one.id: one for one in measurer.measure(candidates)}
    assert {found[n].status for n in range(1, 9)} == {Status.WRONG_RESULT}
    assert found[0].status is Status.RUN_ERROR
    assert found[0].message.startswith("the program started ")


def test_processes_that_were_there_before_are_no_fault() -> None:
    with subprocess.Popen(["sleep", "600"]) as before:
        with no_new_processes():
            pass
        with pytest.raises(Fault, match="^the program started another process$") as caught:
            with no_new_processes():
                new = subprocess.Popen(["sleep", "600"])
        assert caught.value.status is Status.RUN_ERROR and caught.value.corrupt
        for process in (before, new):
            process.kill()
        new.wait()


def test_they_are_looked_for_after_a_program_that_fails() -> None:
    with pytest.raises(Fault, match="started 2 other processes"):
        with no_new_processes():
            children = [subprocess.Popen(["sleep", "600"]) for _ in range(2)]
            raise Fault(Status.WRONG_RESULT, "it is wrong")
    for child in children:
        assert child.pid in children_of(os.getpid())
        child.kill()
        child.wait()
