"""Programs are built here, and run on the servers that a tracker knows: one session for each."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from typing import Any

from schedlang.errors import WorkloadError
from schedlang.targets.cpu.machine import CPUMachine
from schedlang.targets.measure.work import Work
from schedlang.targets.pooled.executor import Executor, Next
from schedlang.targets.rpc.servers import LOST, STALE, Servers, explain, lost_twice, prefer_other
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.request import START_TIMEOUT, Reply, Request
from schedlang.targets.worker.scratch import ScratchFolder

_PROGRAM = "schedlang.targets.rpc.worker"
_CONNECT_SECONDS = 10.0
# A server says itself that a session is over; one that has not by now hangs.
_GRACE_SECONDS = 5.0
_LIBRARIES_A_WORKER = 4
_LEARNING_TRIES = 3


class RPCExecutor(Executor):
    """Workers that build libraries, and hold one session on a server at a time.

    A run reserves a server, connects to it, has it run the unscheduled program where it has not,
    and runs. A program whose server dies or hangs is tried once more, on the next server.

    Parameters
    ----------
    machine: the servers' CPU.
    servers: what is known of them.
    builders: number of programs that are built at the same time.
    overlap: build programs while others run.

    Attributes
    ----------
    runs: number of programs that were run on each server.
    """

    def __init__(
        self, machine: CPUMachine, servers: Servers, builders: int, *, overlap: bool
    ) -> None:
        self._machine, self._servers = machine, servers
        self.overlap, self.build_lanes, self.run_lanes = overlap, builders, servers.count
        size = builders + servers.count if overlap else max(builders, servers.count)
        self.most_waiting = _LIBRARIES_A_WORKER * size
        self.scratch = ScratchFolder()
        # Removing the folder also removes the files of killed workers.
        self.runners = WorkerPool(size, 1, _PROGRAM, scratch=self.scratch.path)
        self.builders = self.runners
        self.runs: Counter[str] = Counter()
        self._program, self._reference = b"", ""
        self._serving: set[Slot] = set()

    def begin(self) -> None:
        """Expect servers from now on, none of which has a program."""
        self._servers.heard()
        self._serving.clear()

    def set_up(self) -> dict[str, Any]:
        assert self.scratch is not None
        own = {"code": self._machine.spec(), "scratch": str(self.scratch.path)}
        return {**own, "tracker": list(self._servers.tracker), "key": self._servers.key}

    def rebind(self, start: Request, bind: Request) -> None:
        super().rebind(start, bind)
        self._program, self._reference = start.blobs[0], ""
        self._servers.forget()

    def build_reference(self) -> str:
        """Return the library of the unscheduled program, built once; WorkloadError if it fails."""
        if not self._reference:
            header = {"request": "build", "name": "reference"}
            request = Request(header, (self._program,), START_TIMEOUT)
            reply = self.runners.ask(self.runners.ready(), request)
            if not reply.ok:
                raise WorkloadError(f"the unscheduled program cannot be built: {explain(reply)}")
            self._reference = reply.header["library"]
        return self._reference

    def learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        """Build the programs here, and run them on a server that is free."""
        return self._on_any_server(
            {"request": "reference", "reply": True}, until, programs, seconds
        )

    def compare_given(self, until: float, part: Sequence[bytes]) -> Reply | None:
        header = {"request": "compare_given", "is_part": bool(part)}
        return self._on_any_server(header, until, part, START_TIMEOUT)

    def _on_any_server(
        self, header: dict[str, Any], until: float, programs: Sequence[bytes], seconds: float
    ) -> Reply | None:
        """Build programs, by default the unscheduled one; make a request about their libraries."""
        libraries = []
        for place, program in enumerate(programs or (self._program,)):
            build: dict[str, Any] = {"request": "build", "name": f"first{place}"}
            reply = self.runners.ask_first(Request(build, (program,), seconds), until)
            if reply is None or not reply.ok:
                return reply
            libraries.append(reply.header["library"])
        part = libraries[1] if len(libraries) > 1 else None
        asked = {**header, "library": libraries[0], "part": part}
        stages = (
            self._reserve(),
            self._connect(run=seconds, reference=seconds),
            Request(asked, timeout=seconds + _GRACE_SECONDS),
        )
        for _ in range(_LEARNING_TRIES):
            for request in stages:
                reply = self.runners.ask_first(request, until)
                if reply is None or not reply.ok:
                    break
            if reply is None or reply.ok or reply.header["status"] not in (LOST, STALE):
                break
        return reply

    def build(self, work: Work, program: bytes, *, discard: bool) -> Request:
        header = {"request": "build", "name": work.name, "packs": True}
        return Request(header, (program,), self.requests.build_timeout)

    def start(self, slot: Slot, work: Work) -> Request:
        return self._reserve()

    def advance(
        self, slot: Slot, work: Work, step: str, reply: Reply, ready: deque[Work]
    ) -> tuple[Work, Next]:
        work.note(reply)
        self._serving.discard(slot)
        if step == "run":
            work.run_seconds += reply.seconds
            return work, self._after_run(work, reply, ready)
        if step == "reference":
            ready.appendleft(work)
            self._servers.check_reference(work.server, reply)
        elif not reply.ok:
            ready.appendleft(work)
            self._servers.check_silence(reply, serves=bool(self._serving))
        elif step == "reserve":
            work = prefer_other(work, reply.header["server"], ready)
            work.server = reply.header["server"]
            return work, self._connect(run=self.requests.run_timeout, reference=START_TIMEOUT)
        else:
            work.run_seconds += reply.seconds
            self._servers.check_threads(work.server, reply)
            self._serving.add(slot)
            return work, self._run(work) if reply.header["known"] else self._learn_reference()
        return work, None

    def _reserve(self) -> Request:
        wait = self._servers.timeout
        return Request({"request": "reserve", "wait": wait}, timeout=wait + _GRACE_SECONDS)

    def _connect(self, **timeouts: float) -> Request:
        return Request({"request": "connect", "timeouts": timeouts}, timeout=_CONNECT_SECONDS)

    def _learn_reference(self) -> Request:
        header = {"request": "reference", "library": self._reference}
        return Request(header, timeout=START_TIMEOUT + _GRACE_SECONDS)

    def _run(self, work: Work) -> Request:
        request, built = self.run(work), work.built
        header = {**request.header, "library": built["library"], "plan": built["plan"]}
        return Request(header, timeout=self.requests.run_timeout + _GRACE_SECONDS)

    def _after_run(self, work: Work, reply: Reply, ready: deque[Work]) -> Reply | None:
        status = reply.header["status"] if not reply.ok else ""
        if reply.ok or (status not in (STALE, LOST) and not reply.lost):
            self._servers.heard()
            self.runs[work.server] += 1
            work.lost_on.clear()
            return reply
        if status == STALE:
            ready.appendleft(work)
            return None
        work.lost_on.append(work.server)
        if len(work.lost_on) < 2:
            ready.append(work)
            return None
        return lost_twice(work, reply)
