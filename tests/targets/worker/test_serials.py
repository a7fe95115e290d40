"""A reply counts only for the request that it repeats the serial of."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.process import WorkerProcess, wait_any
from schedlang.targets.worker.protocol import Request


def ask(process: WorkerProcess, **header: Any) -> bool:
    """Whether there is a reply."""
    process.send(header)
    wait_any([process], time.monotonic() + 60)
    return process.take_reply() is not None


@pytest.mark.parametrize("wrong", ["none", "old", "number"])
def test_a_reply_to_no_request_in_hand_is_a_corrupt_worker(tiny_worker: str, wrong: str) -> None:
    process = WorkerProcess(1, tiny_worker)
    try:
        assert ask(process) and ask(process) and not process.exited
        assert not ask(process, wrong=wrong)
        assert process.exited and process.ended() is None
    finally:
        process.kill()


@pytest.fixture
def make_pool(tiny_worker: str) -> Callable[[], tuple[WorkerPool, Slot]]:
    def make() -> tuple[WorkerPool, Slot]:
        pool = WorkerPool(1, 1, tiny_worker)
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


def test_serials_cannot_be_guessed(tiny_worker: str) -> None:
    process = WorkerProcess(1, tiny_worker)
    try:
        seen = set()
        for _ in range(3):
            process.send({})
            seen.add(process._serial)
            wait_any([process], time.monotonic() + 60)
            assert process.take_reply() is not None
        assert len(seen) == 3 and min(map(len, seen)) == 16
        assert process.pid is not None
    finally:
        process.kill()
