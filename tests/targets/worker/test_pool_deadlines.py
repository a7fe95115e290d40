"""A request that may take some seconds of processor time, on a machine that has other work."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from dataclasses import dataclass, field

import pytest

from schedlang.targets.worker import pool as pools
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.process import WorkerProcess, wait_any
from schedlang.targets.worker.protocol import Request


@dataclass
class Machine:
    """A clock, and a worker that never replies and gets ``share`` of a processor."""

    share: float | None
    now: float = 0.0
    looks: int = 0
    stderr: str = ""
    exited: bool = False
    sent: list[object] = field(default_factory=list)

    def cpu_seconds(self, *, below: bool = False) -> float | None:
        return None if self.share is None else 3.0 + self.share * self.now

    def send(self, header: object, blobs: object) -> None:
        self.sent.append(header)

    def take_reply(self) -> None:
        return None

    def kill(self) -> int:
        return -9

    def monotonic(self) -> float:
        return self.now

    def wait(self, workers: object, deadline: float) -> None:
        self.looks += 1
        self.now = max(self.now, deadline)


def given_up_after(monkeypatch: pytest.MonkeyPatch, machine: Machine, limit: float) -> float:
    """Return when the pool gives up a request of at most 30 s, with ``limit`` s of processor."""
    monkeypatch.setattr(pools, "wait_any", machine.wait)
    monkeypatch.setattr(pools.time, "monotonic", machine.monotonic)
    pool = WorkerPool(1, 1, "no.program")
    (slot,) = pool.slots
    slot.process = machine  # type: ignore[assignment]
    pool.submit(slot, Request({"request": "build"}, timeout=30.0))
    while True:
        pool.shorten(slot, limit)
        ended = pool.wait()
        assert machine.looks < 100, "it looks all the time"
        if ended:
            assert isinstance(ended[0][0], Slot) and ended[0][1].timed_out
            return machine.now


@pytest.mark.parametrize(
    ("share", "seconds"),
    [(1.0, 5.0), (0.5, 10.0), (0.25, 20.0), (0.1, 30.0), (0.0, 30.0), (None, 5.0)],
)
def test_processor_time_counts_up_to_the_timeout(
    share: float | None, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(share)
    assert given_up_after(monkeypatch, machine, 5.0) == pytest.approx(seconds, abs=0.03)


def test_without_a_limit_of_processor_time_the_timeout_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine(1.0)
    assert given_up_after(monkeypatch, machine, math.inf) == 30.0
    assert machine.looks == 1


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_worker_tells_its_processor_time(tiny_worker: str) -> None:
    """Once it has told its number."""
    process = WorkerProcess(1, tiny_worker)
    assert process.cpu_seconds() is None
    process.send({})
    wait_any([process], time.monotonic() + 60)
    assert process.take_reply() is not None
    used = process.cpu_seconds()
    assert used is not None and used >= 0
    process.kill()
    assert process.cpu_seconds() is None


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_a_compiler_below_a_worker_takes_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it runs, and when it has ended."""
    spin = [sys.executable, "-c", "while True: pass"]
    start = f"import subprocess; child = subprocess.Popen({spin!r}); input(); child.kill(); "
    start += "child.wait(); print('ended', flush=True); input()"
    process = WorkerProcess(1, "no.program")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", start], stdin=pipe, stdout=pipe) as worker:
        assert worker.stdin is not None and worker.stdout is not None
        monkeypatch.setattr(WorkerProcess, "pid", worker.pid)
        end = time.monotonic() + 60
        while (process.cpu_seconds(below=True) or 0.0) < 0.5 and time.monotonic() < end:
            time.sleep(0.05)
        assert (process.cpu_seconds() or 0.0) < 0.4, "of the one that starts it only"
        worker.stdin.write(b"\n")
        worker.stdin.flush()
        assert worker.stdout.readline() == b"ended\n"
        assert (process.cpu_seconds() or 0.0) >= 0.5
        worker.kill()
    process.kill()
