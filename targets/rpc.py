"""Measuring on other machines, through TVM's RPC tracker and servers."""

from __future__ import annotations

import itertools
import math
import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError, WorkloadError
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.targets.local_cpu import (
    _ALWAYS_VERIFIED,
    _REFERENCE_POLICY,
    _START_TIMEOUT,
    _VERIFY_FACTOR,
    Verify,
)
from schedlang.targets.pool import Reply, Request, Slot, WorkerPool, idle_slots
from schedlang.targets.roofline import shortest_time
from schedlang.targets.rpc_fleet import Tracker, find_servers, is_here, tracker_address
from schedlang.targets.rpc_work import SERVED, Stage, Work, explain, lost_twice, prefer_other
from schedlang.targets.rpc_worker import LOST, STALE
from schedlang.targets.target import Target, as_target
from schedlang.targets.timing import TimingPolicy
from schedlang.tvm.program import to_json

if TYPE_CHECKING:
    from types import TracebackType

    from schedlang.workload import Workload

_CONNECT_SECONDS = 10.0
# A server says itself that a session is over; one that has not by now hangs.
_GRACE_SECONDS = 5.0
_LIBRARIES_A_WORKER = 4
_REFERENCE_TRIES = 3
# With fewer, the order of two candidates is a matter of luck.
_FEWEST_ROUNDS = 2


class RPC:
    """Builds candidates here, and runs them on the servers that a TVM tracker knows.

    Every candidate gets a session of its own on one server: a process there that the server kills
    when its time is over. Several servers run at once, each one candidate at a time. A candidate
    whose server dies or hangs is tried once more, on the next server that the tracker gives.
    Libraries are built in worker processes; where the tracker is on this machine, never while one
    runs.

    **TVM's RPC has no authentication**: use it on 127.0.0.1 or in a network that you trust.

    Parameters
    ----------
    workload: the program before scheduling; candidates must compute what it computes.
    target: the servers' CPU: a Target, its name, or one of TVM's of kind llvm. It must be of this
        machine's instruction set, with as many cores as the servers use threads.
    tracker: ``(host, port)`` or ``"host:port"``.
    key: what the tracker calls the servers; all of them should be equal machines.
    builders: number of programs that are built at once; by default this machine's cores.
    build_timeout, run_timeout: seconds; ``run_timeout`` holds for all that happens on the server
        with one candidate: sending it, its runs, and fetching its results.
    server_timeout: seconds without any server before ``measure`` gives up.
    verify: True compares the results of the first few candidates and of those whose latency is at
        most 1.2 times the best so far, ``"all"`` of every one, False of none; the unscheduled
        program runs once on each server for it.
    timing: how often to run a candidate.
    seed: of the random inputs.
    overlap: build while candidates run; by default unless a server has an address of this machine.
    recycle_after: a worker is replaced after this many requests.

    ``runs`` counts the candidates that were run on each server. Raises ``TargetError`` when the
    tracker does not answer or has no such server. ``measure`` raises ``TargetError`` when the
    servers are gone or use another number of threads, ``WorkloadError`` when the unscheduled
    program itself fails, and never because of a candidate.
    """

    def __init__(
        self,
        workload: Workload,
        target: Target | str | Any = "cpu",
        *,
        tracker: Tracker,
        key: str,
        builders: int | None = None,
        build_timeout: float = 30.0,
        run_timeout: float = 10.0,
        server_timeout: float = 60.0,
        verify: Verify = True,
        timing: TimingPolicy | None = None,
        seed: int = 0,
        overlap: bool | None = None,
        recycle_after: int = 2000,
    ) -> None:
        if verify not in (True, False, "all"):
            raise TargetError(f"verify={verify!r}; choose True, False or 'all'")
        if builders is not None and builders < 1:
            raise TargetError(f"builders={builders}; give 1 or more")
        self.workload = workload
        self.target = as_target(target)
        self.best_so_far: float | None = None
        self.runs: Counter[str] = Counter()
        self._tracker = tracker_address(tracker)
        self._key = key
        servers = find_servers(self._tracker, key)
        self._servers = len(servers)
        self._builders = builders or Target("cpu").cores
        self._overlap = overlap if overlap is not None else not any(map(is_here, servers))
        self._build_timeout = build_timeout
        self._run_timeout = run_timeout
        self._server_timeout = server_timeout
        self._verify: Verify = verify
        self._timing = timing or TimingPolicy()
        self._recycle_after = recycle_after
        self._measured = 0
        self._serials = itertools.count()
        self._jobs: dict[int, tuple[Work, Stage]] = {}
        self._building = True
        self._contact = time.monotonic()
        self._reference_library = ""
        self._reference_faults: list[str] = []
        self._reference_latency: float | None = None
        self._folder = tempfile.TemporaryDirectory(
            prefix="schedlang-rpc-", ignore_cleanup_errors=True
        )
        both = (self._builders, self._servers)
        self._pool = WorkerPool(
            sum(both) if self._overlap else max(both),
            1,
            self._start(seed),
            _accept,
            program="schedlang.targets.rpc_worker",
            # What a killed worker leaves is removed with the folder.
            scratch=Path(self._folder.name),
        )

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish.

        An abandoned iteration leaves none behind.
        """
        queue = deque(map(self._work, candidates))
        for work, reply in self._drive(queue, deque()):
            _forget(work)
            measurement = self._measurement(work, reply)
            if measurement.ok:
                self._measured += 1
                if self.best_so_far is None or measurement.latency < self.best_so_far:
                    self.best_so_far = measurement.latency
            yield measurement

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = 30,
        budget_seconds: float = 10.0,
    ) -> list[Measurement]:
        """Time a few candidates against each other, with one sample of each in a round.

        Returns one measurement for each, in the same order: those that are ok have equally many
        samples, ``rounds`` or what was done in ``budget_seconds``, and were verified once more
        unless ``verify`` is False. Each sample is taken in a session of its own, on any server.
        """
        if rounds < 1:
            raise ValueError(f"rounds={rounds}; give 1 or more")
        works = [self._work(candidate) for candidate in candidates]
        factor = None if self._verify is False else math.inf
        once = replace(self._timing, min_repeats=1, max_repeats=1)
        found: dict[int, Measurement] = {}
        samples: dict[int, list[float]] = {work.serial: [] for work in works}
        for work in works:
            work.policy, work.verify_factor = once, factor
        queue, built = deque(works), deque[Work]()
        end = time.monotonic() + budget_seconds
        for number in range(rounds):
            if number >= _FEWEST_ROUNDS and time.monotonic() >= end:
                break
            for work, reply in self._drive(queue, built):
                found[work.serial] = measurement = self._measurement(work, reply)
                if measurement.ok:
                    samples[work.serial] += measurement.samples
            alive = [work for work in works if found[work.serial].ok]
            for work in alive:
                work.verify_factor = None
            # There and back: what changes steadily within a round then favours none.
            queue, built = deque(), deque(alive if number % 2 else reversed(alive))
        for work in works:
            _forget(work)
        return [_with_samples(found[w.serial], samples[w.serial], factor) for w in works]

    @property
    def reference_latency(self) -> float:
        """Median latency of the unscheduled program in seconds; measured when first asked for."""
        if self._reference_latency is None:
            self._build_reference()
            work = self._work(Candidate(-1, self.workload.mod))
            work.library, work.timeout = self._reference_library, _START_TIMEOUT
            work.policy, work.verify_factor = _REFERENCE_POLICY, None
            ((work, reply),) = self._drive(deque(), deque([work]))
            if not reply.ok:
                raise TargetError(f"the unscheduled program cannot be timed: {explain(reply)}")
            samples = tuple(reply.header["samples"])
            self._reference_latency = Measurement(-1, Status.OK, samples).latency
        return self._reference_latency

    def close(self) -> None:
        """Kill all workers, which ends their sessions; safe to call twice."""
        self._pool.close()
        self._folder.cleanup()

    def __enter__(self) -> RPC:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _start(self, seed: int) -> Request:
        header = {
            "request": "start",
            "tracker": list(self._tracker),
            "key": self._key,
            "scratch": self._folder.name,
            "llvm": self.target.llvm_options(),
            "seed": seed,
            "reference": self._verify is not False,
            "shortest_time": shortest_time(self.workload, self.target),
            "args": [
                {"name": arg.name, "shape": list(arg.shape), "dtype": arg.dtype, "role": arg.role}
                for arg in self.workload.args
            ],
        }
        return Request(header, (to_json(self.workload.mod).encode(),), _START_TIMEOUT)

    def _build_reference(self) -> None:
        if self._reference_library:
            return
        header = {"request": Stage.BUILD, "name": "reference"}
        program = to_json(self.workload.mod).encode()
        reply = self._pool.ask(self._pool.ready(), Request(header, (program,), _START_TIMEOUT))
        if not reply.ok:
            raise WorkloadError(f"the unscheduled program cannot be built: {explain(reply)}")
        self._reference_library = reply.header["library"]

    def _drive(self, queue: deque[Work], built: deque[Work]) -> Iterator[tuple[Work, Reply]]:
        """Build and run until all have a last reply; ``built`` need no building."""
        self._contact = time.monotonic()
        try:
            if (queue or built) and self._verify is not False:
                self._build_reference()
            while queue or built or self._jobs:
                done = self._submit(queue, built)
                for slot, reply in self._pool.wait():
                    last = self._advance(slot, reply, built)
                    if last is not None:
                        done.append(last)
                yield from done
        finally:
            for slot in self._pool.slots:
                if slot.serial in self._jobs:
                    self._pool.drop(slot)
            self._jobs.clear()

    def _submit(self, queue: deque[Work], built: deque[Work]) -> list[tuple[Work, Reply]]:
        """Give idle workers something to do; returns what cannot be built at all."""
        pool, refused = self._pool, []
        for slot in idle_slots(pool.slots):
            if slot.requests >= self._recycle_after and slot.serial not in self._jobs:
                pool.drop(slot)
        pool.populate(len(queue) + len(built) + len(self._jobs))
        for slot in idle_slots(pool.slots):
            builds, runs = self._in_flight()
            self._turn(builds, runs, queue, built)
            if built and runs < self._servers and (self._overlap or not self._building):
                work = built.popleft()
                self._ask(slot, work, Stage.RESERVE)
            elif queue and builds < self._builders and self._may_build(built):
                work = queue.popleft()
                try:
                    program = to_json(work.module).encode()
                except Exception as error:
                    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
                    message = f"it cannot be written as JSON: {reason}"
                    header = {"ok": False, "status": Status.BUILD_ERROR, "message": message}
                    refused.append((work, Reply(header)))
                    continue
                self._ask(slot, work, Stage.BUILD, program)
        return refused

    def _in_flight(self) -> tuple[int, int]:
        builds = sum(stage is Stage.BUILD for _, stage in self._jobs.values())
        return builds, len(self._jobs) - builds

    def _may_build(self, built: deque[Work]) -> bool:
        room = len(built) < _LIBRARIES_A_WORKER * self._pool.size
        return room and (self._overlap or self._building)

    def _turn(self, builds: int, runs: int, queue: deque[Work], built: deque[Work]) -> None:
        """Without overlap: change from building to running, or back, when all have finished."""
        if self._building:
            self._building = builds > 0 or (bool(queue) and self._may_build(built))
        else:
            self._building = not runs and not built

    def _ask(self, slot: Slot, work: Work, stage: Stage, program: bytes = b"") -> None:
        header: dict[str, Any] = {"request": stage}
        blobs: tuple[bytes, ...] = ()
        if stage is Stage.BUILD:
            header["name"] = f"candidate{work.serial}"
            blobs, timeout = (program,), self._build_timeout
        elif stage is Stage.RESERVE:
            header["wait"] = self._server_timeout
            timeout = self._server_timeout + _GRACE_SECONDS
        elif stage is Stage.CONNECT:
            header["timeouts"] = {"run": work.timeout, "reference": _START_TIMEOUT}
            timeout = _CONNECT_SECONDS
        elif stage is Stage.REFERENCE:
            header["library"] = self._reference_library
            timeout = _START_TIMEOUT + _GRACE_SECONDS
        else:
            header |= {"id": work.serial, "library": work.library, **self._how_to_run(work)}
            timeout = work.timeout + _GRACE_SECONDS
        self._jobs[slot.serial] = (work, stage)
        self._pool.submit(slot, Request(header, blobs, timeout))

    def _how_to_run(self, work: Work) -> dict[str, Any]:
        if work.policy is not None:
            policy, best, factor = work.policy, None, work.verify_factor
        else:
            policy, best, factor = self._timing, self.best_so_far, _VERIFY_FACTOR
            if self._verify is False:
                factor = None
            elif self._verify == "all" or self._measured < _ALWAYS_VERIFIED:
                factor = math.inf
        return {"policy": asdict(policy), "best": best, "verify_factor": factor}

    def _advance(self, slot: Slot, reply: Reply, built: deque[Work]) -> tuple[Work, Reply] | None:
        """The next stage of what the slot works on; returns it with its last reply."""
        work, stage = self._jobs.pop(slot.serial)
        if stage is Stage.BUILD:
            work.build_seconds = reply.seconds
            if not reply.ok:
                return work, reply
            work.library = reply.header["library"]
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

    def _after_run(self, work: Work, reply: Reply, built: deque[Work]) -> tuple[Work, Reply] | None:
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

    def _check_reference(self, work: Work, reply: Reply) -> None:
        if reply.ok:
            self._contact = time.monotonic()
            return
        if not reply.lost and reply.header["status"] not in (LOST, STALE):
            raise WorkloadError(
                f"the unscheduled program cannot be the reference: {explain(reply)}"
            )
        self._reference_faults.append(f"{work.server}: {explain(reply)}")
        if len(self._reference_faults) >= _REFERENCE_TRIES:
            raise TargetError(
                "no server survives the unscheduled program: " + "; ".join(self._reference_faults)
            )

    def _check_servers(self, reply: Reply) -> None:
        silence = time.monotonic() - self._contact
        served = any(stage in SERVED for _, stage in self._jobs.values())
        if silence >= self._server_timeout and not served:
            raise TargetError(
                f"no server {self._key!r} for {silence:.0f} s: {explain(reply)}; "
                "are the servers running?"
            )

    def _check_threads(self, work: Work, reply: Reply) -> None:
        threads = reply.header["threads"]
        if threads != self.target.cores:
            raise TargetError(
                f"parallel loops on {work.server} use {threads} threads, and the target has "
                f"{self.target.cores} cores: start the server with "
                f"TVM_NUM_THREADS={self.target.cores}, or measure for Target('cpu', cores="
                f"{threads})"
            )

    def _work(self, candidate: Candidate) -> Work:
        return Work(candidate.id, next(self._serials), candidate.module, self._run_timeout)

    def _measurement(self, work: Work, reply: Reply) -> Measurement:
        status = Status.OK
        if not reply.ok:
            status = Status.BUILD_TIMEOUT if reply.timed_out else reply.status
        return Measurement(
            work.id,
            status,
            tuple(reply.header.get("samples", ())),
            "" if reply.ok else reply.message(self._build_timeout),
            "" if reply.ok else reply.stderr,
            verified=reply.ok and reply.header["verified"],
            build_seconds=work.build_seconds,
            run_seconds=work.run_seconds,
        )


def _forget(work: Work) -> None:
    if work.library:
        Path(work.library).unlink(missing_ok=True)


def _with_samples(
    measurement: Measurement, samples: Sequence[float], factor: float | None
) -> Measurement:
    if not measurement.ok:
        return measurement
    return replace(measurement, samples=tuple(samples), verified=factor is not None)


def _accept(reply: dict[str, Any]) -> None:
    """Every worker that has started will do."""
