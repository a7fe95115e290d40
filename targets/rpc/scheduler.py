"""The remote scheduler: builds programs, reserves servers, runs the programs there, tries again."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from schedlang.errors import TargetError, WorkloadError
from schedlang.measurement import Status
from schedlang.targets.measure.work import program_of
from schedlang.targets.rpc.work import (
    SERVED,
    RemoteWork,
    Stage,
    explain,
    lost_twice,
    prefer_other,
)
from schedlang.targets.rpc.worker import LOST, STALE
from schedlang.targets.worker.build_timeout import BuildTimeout
from schedlang.targets.worker.pool import Slot, WorkerPool, idle_slots
from schedlang.targets.worker.request import START_TIMEOUT, Reply, Request

Done = tuple[RemoteWork, Reply]
"""A program, and the last reply about it."""

_CONNECT_SECONDS = 10.0
# A server says itself that a session is over; one that has not by now hangs.
_GRACE_SECONDS = 5.0
_LIBRARIES_A_WORKER = 4
_REFERENCE_TRIES = 3


@dataclass(frozen=True, slots=True)
class Limits:
    """A remote scheduler's limits on parallel work and waiting times.

    Attributes
    ----------
    builders: maximum number of programs that are built at the same time.
    servers: maximum number of sessions at the same time.
    overlap: build programs while others run.
    threads: number of threads that a server's parallel loops must use.
    server_timeout: seconds without any server after which to give up.
    recycle_after: a worker is replaced after this many requests.
    """

    builders: int
    servers: int
    overlap: bool
    threads: int
    server_timeout: float
    recycle_after: int

    @property
    def workers(self) -> int:
        """Number of processes that this needs."""
        both = (self.builders, self.servers)
        return sum(both) if self.overlap else max(both)


class RemoteScheduler:
    """Takes every program through its stages until it has a last reply.

    A program whose server dies or hangs is tried once more, on the next server that the tracker
    gives. Without overlap, nothing is built while a program runs.

    Parameters
    ----------
    pool: the workers; ``limits.workers`` is their number.
    key: the servers' key at the tracker.
    build_timeout: how long to wait for a build.
    how_to_run: returns the header of the request that runs a program, see ``run_header``; called
        when the program is about to run.
    advice: returns what to do if the unscheduled program crashes.

    Attributes
    ----------
    pool: the workers.
    jobs: the job of each worker, by its serial number.
    runs: number of programs that were run on each server.
    unreached: sides of the unscheduled program's branches that no inputs take, as text.
    """

    def __init__(
        self,
        pool: WorkerPool,
        key: str,
        limits: Limits,
        build_timeout: BuildTimeout,
        how_to_run: Callable[[RemoteWork], dict[str, Any]],
        advice: Callable[[], str],
    ) -> None:
        self.pool = pool
        self.jobs: dict[int, tuple[RemoteWork, Stage]] = {}
        self.runs: Counter[str] = Counter()
        self.unreached: Sequence[str] = ()
        self._key = key
        self._program = b""
        self._limits = limits
        self._how_to_run = how_to_run
        self._advice = advice
        self._build_timeout = build_timeout
        self._building = True
        self._contact = time.monotonic()
        self._reference = ""
        self._reference_faults: list[str] = []

    def build_reference(self) -> str:
        """Return the library of the unscheduled program, built once; WorkloadError if it fails."""
        if not self._reference:
            header = {"request": Stage.BUILD, "name": "reference"}
            request = Request(header, (self._program,), START_TIMEOUT)
            reply = self.pool.ask(self.pool.ready(), request)
            if not reply.ok:
                raise WorkloadError(f"the unscheduled program cannot be built: {explain(reply)}")
            self._reference = reply.header["library"]
        return self._reference

    def learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        """Do what ``Learn`` in ``measure.expected.large`` says, on a server that is free."""
        libraries = []
        for place, program in enumerate(programs or (self._program,)):
            header: dict[str, Any] = {"request": Stage.BUILD, "name": f"first{place}"}
            reply = self._ask_one(until, Request(header, (program,), seconds))
            if reply is None or not reply.ok:
                return reply
            libraries.append(reply.header["library"])
        part = libraries[1] if len(libraries) > 1 else None
        wait = self._limits.server_timeout
        timeouts = {"run": seconds, "reference": seconds}
        learning = {"library": libraries[0], "part": part, "reply": True}
        stages = (
            Request({"request": Stage.RESERVE, "wait": wait}, timeout=wait + _GRACE_SECONDS),
            Request({"request": Stage.CONNECT, "timeouts": timeouts}, timeout=_CONNECT_SECONDS),
            Request({"request": Stage.REFERENCE, **learning}, timeout=seconds + _GRACE_SECONDS),
        )
        for _ in range(_REFERENCE_TRIES):
            for request in stages:
                reply = self._ask_one(until, request)
                if reply is None or not reply.ok:
                    break
            if reply is None or reply.ok or reply.header["status"] not in (LOST, STALE):
                break
        return reply

    def _ask_one(self, until: float, request: Request) -> Reply | None:
        """Ask the first idle worker; None at ``until`` if it has not replied by then."""
        slot = self.pool.ready_by(until)
        if slot is None:
            return None
        reply = self.pool.ask_until(slot, request, until)
        if reply is None:
            self.pool.drop(slot)
        return reply

    def rebind(self, start: Request, bind: Request) -> None:
        """Point the workers to another workload, see ``WorkerPool.rebind``."""
        self.pool.rebind(start, bind)
        self._program, self._reference = start.blobs[0], ""
        self._reference_faults = []
        self.unreached = ()

    def drive(
        self, queue: deque[RemoteWork], built: deque[RemoteWork], until: float = math.inf
    ) -> Iterator[Done]:
        """Build and run until all have a last reply; ``built`` need no building.

        Stops at ``until`` (of ``time.monotonic``), and drops what is not done then.
        """
        self._contact = time.monotonic()
        try:
            while (queue or built or self.jobs) and time.monotonic() < until:
                done = self._submit(queue, built)
                self._shorten_builds()
                for slot, reply in self.pool.wait(until):
                    last = self._advance(slot, reply, built)
                    if last is not None:
                        done.append(last)
                yield from done
        finally:
            for slot in self.pool.slots:
                if slot.serial in self.jobs:
                    self.pool.drop(slot)
            self.jobs.clear()

    # -- what to do next -------------------------------------------------------------------------

    def _submit(self, queue: deque[RemoteWork], built: deque[RemoteWork]) -> list[Done]:
        """Give jobs to idle workers; return the candidates that cannot be built at all."""
        pool, limits, refused = self.pool, self._limits, []
        for slot in idle_slots(pool.slots):
            if slot.requests >= limits.recycle_after and slot.serial not in self.jobs:
                pool.drop(slot)
        pool.populate(len(queue) + len(built) + len(self.jobs))
        for slot in idle_slots(pool.slots):
            builds, runs = self._in_flight()
            self._turn(builds, runs, queue, built)
            if built and runs < limits.servers and (limits.overlap or not self._building):
                self._ask(slot, built.popleft(), Stage.RESERVE)
            elif queue and builds < limits.builders and self._may_build(built):
                work = queue.popleft()
                program = program_of(work)
                if isinstance(program, Reply):
                    refused.append((work, program))
                else:
                    self._ask(slot, work, Stage.BUILD, program)
        return refused

    def _in_flight(self) -> tuple[int, int]:
        builds = sum(stage is Stage.BUILD for _, stage in self.jobs.values())
        return builds, len(self.jobs) - builds

    def _may_build(self, built: deque[RemoteWork]) -> bool:
        room = len(built) < _LIBRARIES_A_WORKER * self.pool.size
        return room and (self._limits.overlap or self._building)

    def _turn(
        self, builds: int, runs: int, queue: deque[RemoteWork], built: deque[RemoteWork]
    ) -> None:
        """Without overlap, change between building and running when all have finished."""
        if self._building:
            self._building = builds > 0 or (bool(queue) and self._may_build(built))
        else:
            self._building = not runs and not built

    def _shorten_builds(self) -> None:
        for slot in self.pool.slots:
            if slot.serial in self.jobs and self.jobs[slot.serial][1] is Stage.BUILD:
                self.pool.shorten(slot, self._build_timeout.limit)

    def _ask(self, slot: Slot, work: RemoteWork, stage: Stage, program: bytes = b"") -> None:
        header: dict[str, Any] = {"request": stage}
        blobs: tuple[bytes, ...] = ()
        if stage is Stage.BUILD:
            header |= {"name": f"candidate{work.serial}", "packs": True}
            blobs, timeout = (program,), self._build_timeout.most
        elif stage is Stage.RESERVE:
            header["wait"] = self._limits.server_timeout
            timeout = self._limits.server_timeout + _GRACE_SECONDS
        elif stage is Stage.CONNECT:
            header["timeouts"] = {"run": work.timeout, "reference": START_TIMEOUT}
            timeout = _CONNECT_SECONDS
        elif stage is Stage.REFERENCE:
            header["library"] = self._reference
            timeout = START_TIMEOUT + _GRACE_SECONDS
        else:
            header |= {"id": work.serial, "library": work.library, "plan": work.plan}
            header |= self._how_to_run(work)
            timeout = work.timeout + _GRACE_SECONDS
        self.jobs[slot.serial] = (work, stage)
        self.pool.submit(slot, Request(header, blobs, timeout))

    # -- what came of it -------------------------------------------------------------------------

    def _advance(self, slot: Slot, reply: Reply, built: deque[RemoteWork]) -> Done | None:
        """Begin the next stage of the slot's job; return the job if this was its last reply."""
        work, stage = self.jobs.pop(slot.serial)
        work.note(reply)
        if stage is Stage.BUILD:
            work.build_seconds = reply.seconds
            if reply.timed_out:
                late = self._build_timeout.describe(reply.seconds)
                return work, reply.failed_as(Status.BUILD_TIMEOUT, late)
            if not reply.ok:
                return work, reply
            self._build_timeout.note(reply.seconds)
            work.library, work.plan = reply.header["library"], reply.header["plan"]
            built.append(work)
        elif stage is Stage.RUN:
            work.run_seconds += reply.seconds
            return self._after_run(work, reply, built)
        elif stage is Stage.REFERENCE:
            built.appendleft(work)
            self._check_reference(work, reply)
        elif not reply.ok:
            built.appendleft(work)
            self._check_servers(reply)
        elif stage is Stage.RESERVE:
            server = reply.header["server"]
            work = prefer_other(work, server, built)
            work.server = server
            self._ask(slot, work, Stage.CONNECT)
        else:
            work.run_seconds += reply.seconds
            self._contact = time.monotonic()
            self._check_threads(work, reply)
            self._ask(slot, work, Stage.RUN if reply.header["known"] else Stage.REFERENCE)
        return None

    def _after_run(self, work: RemoteWork, reply: Reply, built: deque[RemoteWork]) -> Done | None:
        status = reply.header["status"] if not reply.ok else ""
        if reply.ok or status not in (STALE, LOST) and not reply.lost:
            self._contact = time.monotonic()
            self.runs[work.server] += 1
            work.lost_on.clear()
            return work, reply
        if status == STALE:
            built.appendleft(work)
            return None
        work.lost_on.append(work.server)
        if len(work.lost_on) < 2:
            built.append(work)
            return None
        return work, lost_twice(work, reply)

    def _check_reference(self, work: RemoteWork, reply: Reply) -> None:
        if reply.ok:
            self._contact = time.monotonic()
            self.unreached = reply.header.get("unreached", ())
            return
        if not reply.lost and reply.header["status"] not in (LOST, STALE):
            raise WorkloadError(
                f"the unscheduled program cannot be the reference: {explain(reply)}"
            )
        self._reference_faults.append(f"{work.server}: {explain(reply)}")
        if len(self._reference_faults) >= _REFERENCE_TRIES:
            raise TargetError(
                f"no server survives the unscheduled program: {'; '.join(self._reference_faults)}; "
                f"{self._advice()}"
            )

    def _check_servers(self, reply: Reply) -> None:
        silence = time.monotonic() - self._contact
        served = any(stage in SERVED for _, stage in self.jobs.values())
        if silence >= self._limits.server_timeout and not served:
            raise TargetError(
                f"no server {self._key!r} for {silence:.0f} s: {explain(reply)}; "
                "are the servers running?"
            )

    def _check_threads(self, work: RemoteWork, reply: Reply) -> None:
        threads, wanted = reply.header["threads"], self._limits.threads
        if threads != wanted:
            raise TargetError(
                f"parallel loops on {work.server} use {threads} threads, and the target has "
                f"{wanted} cores: start the server with TVM_NUM_THREADS={wanted}, or measure for "
                f"Target('cpu', cores={threads})"
            )
