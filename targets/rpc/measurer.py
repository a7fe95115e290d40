"""Measuring on other machines, through TVM's RPC tracker and servers."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack

from schedlang.errors import TargetError
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS, interleave
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.targets.cpu.machine import CPUMachine, as_cpu
from schedlang.targets.measure.crash import crash_advice
from schedlang.targets.measure.reference_timing import cut_off_timing
from schedlang.targets.measure.timing import REFERENCE_TIMING
from schedlang.targets.measure.verification.repeats import REMOTE_FINAL_REPEATS
from schedlang.targets.measure.work import run_header
from schedlang.targets.pooled.measurer import PooledMeasurer, PoolOptions
from schedlang.targets.rpc.launch import Tracker, find_servers, is_here, tracker_address
from schedlang.targets.rpc.scheduler import Limits, RemoteScheduler
from schedlang.targets.rpc.work import RemoteWork, explain
from schedlang.targets.target import Target
from schedlang.targets.worker.pool import WorkerPool
from schedlang.targets.worker.request import START_TIMEOUT, Reply, Request
from schedlang.targets.worker.scratch import ScratchFolder
from schedlang.workloads.workload import Workload

_PROGRAM = "schedlang.targets.rpc.worker"
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
        super().__init__(as_cpu(target), slow_build, **options)
        self._tracker = tracker_address(tracker)
        self._server_key = key
        servers = find_servers(self._tracker, key)
        limits = Limits(
            builders=builders or Target("cpu").cores,
            servers=len(servers),
            overlap=overlap if overlap is not None else not any(map(is_here, servers)),
            threads=self.target.cores,
            server_timeout=server_timeout,
            recycle_after=self._recycle_after,
        )
        self._folder = ScratchFolder()
        pool = WorkerPool(
            limits.workers,
            1,
            _accept,
            _PROGRAM,
            self._explain_crash,
            # Removing the folder also removes the files of killed workers.
            scratch=self._folder.path,
        )
        self._scheduler = RemoteScheduler(
            pool, key, limits, self._build_timeout, self._how_to_run, self._advice
        )
        self.bind(workload)

    @property
    def key(self) -> str:
        """Equal for measurers whose latencies compare."""
        return f"{self._server_key} {super().key}"

    @property
    def runs(self) -> Counter[str]:
        """Number of candidates that were run on each server."""
        return self._scheduler.runs

    @property
    def unreached(self) -> Sequence[str]:
        """Sides of the unscheduled program's branches that no inputs take; known after a run."""
        return self._scheduler.unreached or super().unreached

    @property
    def _main_pool(self) -> WorkerPool:
        return self._scheduler.pool

    def _set_up(self) -> dict[str, Any]:
        return {
            "code": self.target.spec(),
            "tracker": list(self._tracker),
            "key": self._server_key,
            "scratch": str(self._folder.path),
        }

    def _rebind(self, start: Request, bind: Request) -> None:
        self._scheduler.rebind(start, bind)

    def _learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        return self._scheduler.learn(until, programs, seconds)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish.

        An abandoned iteration leaves none behind.
        """
        if candidates and not self._prepare(self.deadline):
            return
        works = [self._work(candidate) for candidate in candidates]
        try:
            for work, reply in self._drive(deque(works), deque(), self.deadline):
                _forget(work)
                yield self._count(_measurement(work, reply))
        finally:
            self._forget_all(works)

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Time a few candidates against each other, with one sample of each per round.

        Returns one measurement per candidate, in the same order. Those that are OK have equally
        many samples, ``rounds`` or what was done in ``budget_seconds``, and were verified once more
        unless ``verify`` is False. Each sample is taken in a session of its own, on any server.
        Raises ValueError when ``rounds`` is below 1.
        """
        self._prepare(math.inf)
        works = {candidate.id: self._work(candidate) for candidate in candidates}
        for work in works.values():
            work.policy = replace(self._requests.timing, min_repeats=1, max_repeats=1)
            work.verify_factor = math.inf if self._verify.enabled else None

        def take_round(order: Sequence[int]) -> Iterator[Measurement]:
            ordered = [works[identity] for identity in order]
            queue = deque(work for work in ordered if not work.library)
            built = deque(work for work in ordered if work.library)
            for work in ordered:
                work.run_seconds = 0.0
            for work, reply in self._drive(queue, built):
                work.verify_factor = None
                yield _measurement(work, reply)

        try:
            found = interleave(list(works), take_round, rounds, budget_seconds)
        finally:
            self._forget_all(list(works.values()))
        return [found[candidate.id] for candidate in candidates]

    def close(self) -> None:
        """Kill all workers, which ends their sessions; safe to call twice."""
        self._scheduler.pool.close()
        self._folder.close()

    def _time_reference(self) -> float:
        """Time the unscheduled program on a server; that of a large workload is cut off."""
        if not self._prepare(self.deadline):
            return math.nan
        work = self._work(Candidate(REFERENCE_ID, self.workload.mod))
        work.library, work.timeout = self._scheduler.build_reference(), START_TIMEOUT
        if self._preparation.is_large:
            work.timeout = max(self._large.cut_off(self.deadline), _LEAST_SESSION)
        work.policy = (
            REFERENCE_TIMING if not self._preparation.is_large else cut_off_timing(work.timeout)
        )
        for _, reply in self._drive(deque(), deque([work]), self.deadline):
            if (
                self._preparation.is_large
                and not reply.ok
                and reply.status in ("", Status.RUN_TIMEOUT)
            ):
                # Without it the time was over before the program began, or the server hung.
                running = float(reply.header.get("running_seconds", 0.0))
                self.reference_complete = running <= 0
                return running / _CALLS_OF_A_SAMPLE if running > 0 else math.nan
            if not reply.ok:
                advice = f"; {self._advice()}" if reply.status == Status.CRASHED else ""
                raise TargetError(
                    f"the unscheduled program cannot be timed: {explain(reply)}{advice}"
                )
            return _measurement(work, reply).latency
        return math.nan

    def _drive(
        self, queue: deque[RemoteWork], built: deque[RemoteWork], until: float = math.inf
    ) -> Iterator[tuple[RemoteWork, Reply]]:
        """Build and run until all have a last reply, or until time is up."""
        learns = self._verify.enabled and self._preparation.binding.reference is None
        if (queue or built) and learns and time.monotonic() < until:
            self._scheduler.build_reference()
        return self._scheduler.drive(queue, built, until)

    def _advice(self) -> str:
        return crash_advice(self._preparation.binding)

    def _how_to_run(self, work: RemoteWork) -> dict[str, Any]:
        if work.policy is not None:
            return run_header(work.policy, None, work.verify_factor, REMOTE_FINAL_REPEATS)
        return run_header(self._requests.timing, self.best_so_far, self._verify.factor)

    def _forget_all(self, works: Sequence[RemoteWork]) -> None:
        """Remove all their libraries, and what builds that were stopped have left of others."""
        names = {f"candidate{work.serial}" for work in works}
        folder = self._folder.path  # a closed measurer has none
        for path in folder.iterdir() if folder.is_dir() else ():
            if path.name.partition(".")[0] in names:
                path.unlink(missing_ok=True)

    def _work(self, candidate: Candidate) -> RemoteWork:
        return RemoteWork(candidate, next(self._serials), timeout=self._preparation.run_timeout)


def _measurement(work: RemoteWork, reply: Reply) -> Measurement:
    if reply.timed_out:
        reply = reply.failed_as(Status.RUN_TIMEOUT, explain(reply))
    return work.measurement(reply)


def _forget(work: RemoteWork) -> None:
    if work.library:
        Path(work.library).unlink(missing_ok=True)


def _accept(reply: dict[str, Any]) -> None:
    """Every worker that has started will do."""
