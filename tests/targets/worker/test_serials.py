"""A reply counts only for the request that it repeats the serial of."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.process import WorkerProcess, wait_any
from schedlang.targets.worker.request import Request

# Speaks the protocol without schedlang, whose import takes seconds; ``wrong`` is how it errs.
WORKER = """
import json, os, struct, sys
prefix = struct.Struct("!4sIQ")
known = None
while head := sys.stdin.buffer.read(prefix.size):
    _, size, _ = prefix.unpack(head)
    request = json.loads(sys.stdin.buffer.read(size))
    reply = {"ok": True, "blobs": [], "pid": os.getpid(), "serial": request["serial"]}
    wrong = request.get("wrong")
    if wrong == "none":
        del reply["serial"]
    if wrong == "old":
        reply["serial"] = known
    if wrong == "number":
        reply["pid"] = "1"
    known = request["serial"]
    text = json.dumps(reply).encode()
    os.write(1, (prefix.pack(b"SLW1", len(text), 0) + text) * (2 if wrong == "twice" else 1))
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "erring_worker.py").write_text(WORKER)
    return "erring_worker"


def ask(process: WorkerProcess, **header: Any) -> bool:
    """Whether there is a reply."""
    process.send(header)
    wait_any([process], time.monotonic() + 60)
    return process.take_reply() is not None


@pytest.mark.parametrize("wrong", ["none", "old", "number"])
def test_a_reply_to_no_request_in_hand_is_a_corrupt_worker(program: str, wrong: str) -> None:
    process = WorkerProcess(1, program)
    try:
        assert ask(process) and ask(process) and not process.exited
        assert not ask(process, wrong=wrong)
        assert process.exited and process.ended() is None
    finally:
        process.kill()


@pytest.fixture
def make_pool(program: str) -> Callable[[], tuple[WorkerPool, Slot]]:
    def make() -> tuple[WorkerPool, Slot]:
        pool = WorkerPool(1, 1, program)
        pool.start = Request({})
        return pool, pool.ready()

    return make


def test_a_second_reply_is_not_credited_to_the_next_request(
    make_pool: Callable[[], tuple[WorkerPool, Slot]],
) -> None:
    pool, slot = make_pool()
    try:
        assert pool.ask(slot, Request({"wrong": "twice"}, executes=True)).ok
        second = pool.ask(slot, Request({}, executes=True))
        assert not second.ok and second.lost and second.retry
        assert second.message(1.0) == "the program closed the worker's pipes or wrote to them"
        assert pool.ask(pool.ready(), Request({})).ok
    finally:
        pool.close()


def test_a_candidate_gets_another_worker_when_an_earlier_one_may_be_at_fault(
    make_pool: Callable[[], tuple[WorkerPool, Slot]],
) -> None:
    pool, slot = make_pool()
    try:
        assert pool.ask(slot, Request({}, executes=True)).ok
        lost = pool.ask(slot, Request({"wrong": "old"}, executes=True))
        assert lost.lost and lost.retry
        assert not slot.idle and pool.ready().idle
    finally:
        pool.close()


def test_serials_cannot_be_guessed(program: str) -> None:
    process = WorkerProcess(1, program)
    try:
        seen = set()
        for _ in range(3):
            process.send({})
            seen.add(process._serial)
            wait_any([process], time.monotonic() + 60)
            assert process.take_reply() is not None
        assert len(seen) == 3 and min(map(len, seen)) == 16
        assert process.pid != process._process.pid
    finally:
        process.kill()
