"""What workers tell of when they built, ran and verified candidates."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from schedlang.measurement import Candidate
from schedlang.measurement.clock import check_phases
from schedlang.targets.worker.executor import Work
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.protocol import Dispatcher, Reply, Request

# Tells what it is asked to tell, or ends. It speaks the protocol without schedlang.
WORKER = """
import json, os, struct, sys
prefix = struct.Struct("!4sIQ")
while head := sys.stdin.buffer.read(prefix.size):
    _, size, _ = prefix.unpack(head)
    request = json.loads(sys.stdin.buffer.read(size))
    if "end" in request:
        os._exit(1)
    reply = {"ok": True, "blobs": [], "pid": os.getpid(), "serial": request["serial"]}
    if "tell" in request:
        reply["phases"] = request["tell"]
    text = json.dumps(reply).encode()
    os.write(1, prefix.pack(b"SLW1", len(text), 0) + text)
"""


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    folder = tmp_path_factory.mktemp("program")
    (folder / "telling_worker.py").write_text(WORKER)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        pool = WorkerPool(1, 1, "telling_worker", first=4)
        pool.start = Request({})
        pool.ready()
        yield pool
        pool.close()


def ask(pool: WorkerPool, slot: Slot, **header: Any) -> Reply:
    reply = pool.ask(slot, Request(header))
    assert check_phases(reply.phases) == reply.phases
    return reply


def test_a_reply_says_what_the_worker_did_and_when(pool: WorkerPool) -> None:
    before, slot = time.time(), pool.ready()
    far = [["run", before, before + 1e6], ["verify", before - 1e6, before + 1e6]]
    run, verify = ask(pool, slot, request="run", tell=far).phases
    after = time.time()
    assert [run.activity, verify.activity] == ["run", "verify"]
    assert (run.worker, verify.worker) == (4, 4)
    for phase in (run, verify):
        assert before - 1e-3 <= phase.begin <= phase.end <= after, "no longer than the request took"
    assert ask(pool, slot, request="settle", tell=far).phases == ()


@pytest.mark.parametrize("told", [7, None, "run", [["run", "x", 1]], [["run", 1.0, 2.0]], []])
def test_what_a_damaged_worker_tells_does_no_harm(pool: WorkerPool, told: Any) -> None:
    """The time from the request to the reply stands for it."""
    (phase,) = ask(pool, pool.ready(), request="build", tell=told).phases
    assert (phase.activity, phase.worker) == ("build", 4)
    assert 0 < phase.end - phase.begin < 60


def test_a_lost_worker_worked_until_it_was_lost(pool: WorkerPool) -> None:
    reply = ask(pool, pool.ready(), request="run", end=True)
    assert reply.lost and [one.activity for one in reply.phases] == ["run"]
    work = Work(Candidate(3, None), 0)  # type: ignore[arg-type]
    work.note(Reply({"ok": True}, phases=(reply.phases[0]._replace(activity="build", worker=1),)))
    work.note(reply)
    measurement = work.measurement(reply)
    assert measurement.worker == 4
    assert [(one.activity, one.worker) for one in measurement.phases] == [
        ("build", 1),
        ("run", None),
    ]
    assert Work(Candidate(3, None), 0).measurement(reply).worker is None  # type: ignore[arg-type]


class _Verifying(Dispatcher):
    def set_up(self, header: dict[str, Any]) -> None: ...

    def on_bind(self, request: Request) -> dict[str, Any]:
        return {}

    def on_run(self, request: Request) -> dict[str, Any]:
        self.log.enter("verify")
        raise MemoryError

    def on_settle(self, request: Request) -> dict[str, Any]:
        return {}


def test_a_dispatcher_notes_what_it_does() -> None:
    worker = _Verifying()
    reply = worker.answer(Request({"request": "run"}))
    assert not reply["ok"]
    assert [phase.activity for phase in reply["phases"]] == ["run", "verify"]
    assert worker.answer(Request({"request": "settle"}))["phases"] == ()
