"""Workers that build libraries here and hold sessions on servers."""

from __future__ import annotations

import os
import subprocess
import sys
import weakref
from dataclasses import dataclass
from pathlib import Path

from schedlang.errors import TargetError
from schedlang.targets.pool import WorkerPool
from schedlang.targets.protocol import Decoder, Message
from schedlang.targets.worker_process import WorkerProcess, _environment, _kill, _spawner


class SessionProcess(WorkerProcess):
    """A running ``schedlang.targets.rpc_worker``; its temporary files go to ``scratch``."""

    def __init__(self, scratch: Path) -> None:
        if not sys.executable:
            raise TargetError("sys.executable is empty: no Python to start workers with")
        self.exited = False
        self._process = _spawner().submit(_spawn, scratch).result()
        self._finalizer = weakref.finalize(self, _kill, self._process)
        self._decoder = Decoder()
        self._outgoing = memoryview(b"")
        self._replies: list[Message] = []
        self._tail = b""


@dataclass(slots=True)
class SessionPool(WorkerPool):
    """A pool of ``SessionProcess``; ``scratch`` is a folder of its own."""

    scratch: Path

    def populate(self, count: int) -> None:
        """Start workers, all at once, until ``count`` exist; does not wait for them."""
        if self.closed:
            raise TargetError("this measurer is closed; make a new one")
        alive = sum(slot.process is not None for slot in self.slots)
        for slot in self.slots:
            if alive < min(count, self.size) and slot.process is None:
                slot.process = SessionProcess(self.scratch)
                slot.requests, slot.used = 0, False
                slot.starting = True
                self._send(slot, self.start)
                alive += 1


def _spawn(scratch: Path) -> subprocess.Popen[bytes]:
    # -P: a file called like a module in the user's working directory must not be imported.
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "schedlang.targets.rpc_worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        # What a killed worker leaves is removed with the folder.
        env={**_environment(1), "TMPDIR": str(scratch)},
        start_new_session=True,
    )
    for pipe in (process.stdin, process.stdout, process.stderr):
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
    return process
