"""Measuring on other machines, through TVM's RPC tracker and servers.

``RPC`` is the measurer. Its ``RPCExecutor`` builds programs here, and runs them on the servers that
a tracker knows: one session for each.
"""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Unpack

from schedlang.errors import TargetError, WorkloadError
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS, interleave
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.targets.cpu.cpu_machine import CPUMachine, as_cpu
from schedlang.targets.measure.timing import REFERENCE_TIMING
from schedlang.targets.measure.verification import REMOTE_FINAL_REPEATS
from schedlang.targets.rpc.servers import (
    LOST,
    STALE,
    Servers,
    Tracker,
    explain,
    find_servers,
    is_here,
    lost_twice,
    prefer_other,
    tracker_address,
)
from schedlang.targets.target import Target
from schedlang.targets.worker.executor import Executor, Next, Work
from schedlang.targets.worker.measurer import PooledMeasurer, PoolOptions
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.preparation import crash_advice, cut_off_timing
from schedlang.targets.worker.process import ScratchFolder
from schedlang.targets.worker.protocol import START_TIMEOUT, Reply, Request
from schedlang.targets.worker.stages import Done
from schedlang.workloads.workload import Workload

# -- The measurer ---------------------------------------------------------------------------------

# A session takes some time to send the inputs.
_LEAST_SESSION = 1.0
# What was cut off may have been the last of these: a warm-up call, and two of TVM's evaluator.
_CALLS_OF_A_SAMPLE = 3


class RPC(PooledMeasurer):
    """Builds candidates here, and runs them on the servers that a TVM tracker knows.

    Every candidate gets a session of its own on one server: a process there that the server kills
    when its time is over. Several servers run at once, each one candidate at a time. A candidate
    whose server dies or hangs is tried once more, on the next server that the tracker gives.
    Libraries are built in worker processes. Where a server is on this machine, nothing is built
    while a candidate runs.

    **TVM's RPC has no authentication**: use it on 127.0.0.1 or in a network that you trust.

    Parameters
    ----------
    workload: the program before scheduling; candidates must compute what it computes.
    target: the servers' CPU: a Target, its name, or one of TVM's of kind llvm. It must be of this
        machine's instruction set, with as many cores as the servers use threads.
    tracker: ``(host, port)`` or ``"host:port"``.
    key: name of the servers at the tracker; all of them should be equal machines.
    builders: maximum number of programs that are built at the same time; by default the number of
        this machine's cores.
    slow_build: a build is given up when it takes more than this multiple of the median build, and
        more than 5 seconds; ``math.inf`` disables it.
    server_timeout: seconds without any server before ``measure`` gives up.
    overlap: build while candidates run; by default unless a server has an address of this machine.
    options: those of ``PooledMeasurer``; ``run_timeout`` limits everything that happens on the
        server with one candidate: sending it, its runs, and fetching its results.

    Raises ``TargetError`` when the tracker does not answer or has no such server. ``measure``
    raises ``TargetError`` when the servers are gone or use another number of threads, and
    ``WorkloadError`` when the unscheduled program itself fails; it never raises because of a
    candidate.
    """

    target: CPUMachine
    _executor: RPCExecutor

    def __init__(
        self,
        workload: Workload,
        target: Target | str | Any = "cpu",
        *,
        tracker: Tracker,
        key: str,
        builders: int | None = None,
        slow_build: float = 20.0,
        server_timeout: float = 60.0,
        overlap: bool | None = None,
        **options: Unpack[PoolOptions],
    ) -> None:
        if builders is not None and builders < 1:
            raise TargetError(f"builders={builders}; give 1 or more")
        machine, address = as_cpu(target), tracker_address(tracker)

        def make_executor() -> RPCExecutor:
            found = find_servers(address, key)
            self._servers = Servers(address, key, len(found), machine.cores, server_timeout)
            self._servers.advice = lambda: crash_advice(self._preparation.binding)
            overlaps = overlap if overlap is not None else not any(map(is_here, found))
            most = builders or Target("cpu").cores
            return RPCExecutor(machine, self._servers, most, overlap=overlaps)

        super().__init__(workload, machine, make_executor, slow_build, **options)

    @property
    def key(self) -> str:
        """Equal for measurers whose latencies compare."""
        return f"{self._servers.key} {super().key}"

    @property
    def runs(self) -> Counter[str]:
        """Number of candidates that were run on each server."""
        return self._executor.runs

    @property
    def unreached(self) -> Sequence[str]:
        """Sides of the unscheduled program's branches that no inputs take; known after a run."""
        return self._servers.unreached or super().unreached

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Time a few candidates against each other, with one sample of each per round.

        Returns one measurement per candidate, in the same order. Those that are OK have equally
        many samples, ``rounds`` or what was done in ``budget_seconds`` or by ``deadline``, and were
        verified once more unless ``verify`` is False; with fewer than two rounds by ``deadline``
        the list is empty. Each sample is taken in a session of its own, on any server.
        Raises ValueError when ``rounds`` is below 1.
        """
        if not self._prepare(self.deadline):
            return []
        works = {one.id: Work(one, next(self._serials)) for one in candidates}
        timing = replace(self._executor.requests.timing, min_repeats=1, max_repeats=1)
        once = replace(self._executor.requests, timing=timing)
        verified: set[int] = set()

        def run(work: Work) -> Request:
            again = not self._verify.enabled or work.serial in verified
            factor = None if again else math.inf
            return once.run(work, None, factor, repeats=REMOTE_FINAL_REPEATS)

        def take_round(order: Sequence[int]) -> Iterator[Measurement]:
            ordered = [works[identity] for identity in order]
            for work in ordered:
                work.run_seconds = 0.0
            for work, reply in self._drive(ordered, run, self.deadline):
                verified.add(work.serial)
                yield work.measurement(reply)

        try:
            found = interleave(list(works), take_round, rounds, budget_seconds)
        finally:
            self._executor.forget(list(works.values()))
        return self._compared(candidates, found, rounds)

    def _time_reference(self) -> float:
        """Time the unscheduled program on a server; that of a large workload is cut off."""
        if not self._prepare(self.deadline):
            return math.nan
        work = Work(Candidate(REFERENCE_ID, self.workload.mod), next(self._serials))
        work.built = {"library": self._executor.build_reference(), "plan": None}
        is_large, seconds, timing = self._preparation.is_large, START_TIMEOUT, REFERENCE_TIMING
        if is_large:
            seconds = max(self._large.cut_off(self.deadline), _LEAST_SESSION)
            timing = cut_off_timing(seconds)
        reply = self._run_reference(work, self._reference_request, timing, seconds)
        if reply is None:
            return math.nan
        if is_large and not reply.ok and reply.status == Status.RUN_TIMEOUT:
            # Without it the time was over before the program began, or the server hung.
            running = float(reply.header.get("running_seconds", 0.0))
            self.reference_complete = running <= 0
            return running / _CALLS_OF_A_SAMPLE if running > 0 else math.nan
        if not reply.ok:
            advice = f"; {self._servers.advice()}" if reply.status == Status.CRASHED else ""
            raise TargetError(f"the unscheduled program cannot be timed: {explain(reply)}{advice}")
        return work.measurement(reply).latency

    def _reference_request(self, work: Work) -> Request:
        return self._executor.requests.run(work, None, None, repeats=REMOTE_FINAL_REPEATS)

    def _drive(
        self, works: Sequence[Work], run: Callable[[Work], Request], until: float = math.inf
    ) -> Iterator[Done]:
        """Build and run, after the unscheduled program where servers have to run that first."""
        learns = self._verify.enabled and self._preparation.binding.reference is None
        if works and learns and time.monotonic() < until:
            self._executor.build_reference()
        self._executor.begin()
        return super()._drive(works, run, until)


# -- Where programs are built and run -------------------------------------------------------------

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
