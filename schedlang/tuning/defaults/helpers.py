"""Processes that help to make default schedules: TVM's schedules hold Python's lock."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Sequence
from typing import Any

from schedlang.errors import SchedlangError
from schedlang.language.schedule import Schedule, Trace
from schedlang.targets import Target
from schedlang.targets.kinds import KINDS, load
from schedlang.targets.worker.process import WorkerProcess, wait_any
from schedlang.tvm import program
from schedlang.workloads.workload import Workload

_PROGRAM = "schedlang.tuning.defaults.worker"


def described(target: Target) -> dict[str, Any] | None:
    """Return the request that makes the target in another process; None where that fails.

    A kind of a user's own is known in this process only.
    """
    if target.kind not in KINDS or load(target.kind) is not type(target):
        return None
    given = {
        name: getattr(target, name, None) for name in inspect.signature(type(target)).parameters
    }
    try:
        same = load(target.kind)(**json.loads(json.dumps(given))) == target
    except (TypeError, ValueError, SchedlangError):
        return None
    return {"request": "start", "kind": target.kind, "target": given} if same else None


class Helper:
    """A process that makes one default schedule after the other.

    Attributes
    ----------
    place: which workload it has; None where it has none.
    ready: whether it has started; before, it takes no workload.
    """

    def __init__(self, start: dict[str, Any]) -> None:
        self.place: int | None = None
        self.ready = False
        self._workload: Workload | None = None
        self._process = WorkerProcess(1, _PROGRAM)
        self._process.send(start)

    @property
    def lost(self) -> bool:
        """Whether it has ended, and will not answer."""
        return self._process.exited

    def give(self, place: int, workload: Workload) -> None:
        """Have it make the default schedule of a workload."""
        self.place, self._workload = place, workload
        self._process.send(
            {
                "request": "schedule",
                "name": workload.name,
                "program": program.to_json(workload.mod),
            }
        )

    def take(self) -> Schedule | None:
        """Return what it made, if it has answered; None also where it failed.

        ``place`` is None afterwards if it has answered.
        """
        reply = self._process.take_reply()
        if reply is None:
            return None
        self.place, workload, self._workload = None, self._workload, None
        ok = bool(reply.header["ok"])
        if not self.ready:
            self.ready = ok
            return None
        try:
            return Trace.from_json(reply.header["trace"], workload).replay() if ok else None
        except SchedlangError:
            return None

    def close(self) -> None:
        """End the process."""
        self._process.kill()


def wait(helpers: Sequence[Helper], seconds: float) -> None:
    """Wait until one of them has answered or was lost, for these seconds at most."""
    wait_any([helper._process for helper in helpers], time.monotonic() + seconds)
