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

from schedlang.errors import TargetError
from schedlang.measurement import Candidate, Measurement, Measurer, Status
from schedlang.measurement.measurer import BUDGET_SECONDS, FEWEST_ROUNDS, ROUNDS, check_rounds
from schedlang.targets.cpu.machine import as_cpu
from schedlang.targets.measure.timing import REFERENCE_TIMING, TimingPolicy
from schedlang.targets.measure.verify_policy import Verify, check_verify, verify_factor
from schedlang.targets.rpc.launch import Tracker, find_servers, is_here, tracker_address
from schedlang.targets.rpc.scheduler import Crew, Limits
from schedlang.targets.rpc.work import Work, explain
from schedlang.targets.target import Target
from schedlang.targets.worker.build_timeout import Patience
from schedlang.targets.worker.pool import START_TIMEOUT, Reply, Request, WorkerPool
from schedlang.targets.worker.start import start_request

if TYPE_CHECKING:
    from schedlang.workloads.workload import Workload


class RPC(Measurer):
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
    slow_build: as for ``LocalCPU``: a build is given up when it takes so many times as long as half
        of those before, and 5 seconds.
    server_timeout: seconds without any server before ``measure`` gives up.
    verify: True compares the results of the first few candidates and of those whose latency is at
        most 1.2 times the best so far, ``"all"`` of every one, False of none; the unscheduled
        program runs once on each server for it.
    timing: how often to run a candidate.
    seed: of the random inputs.
    overlap: build while candidates run; by default unless a server has an address of this machine.
    recycle_after: a worker is replaced after this many requests.

    Raises ``TargetError`` when the
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
        slow_build: float = 20.0,
        server_timeout: float = 60.0,
        verify: Verify = True,
        timing: TimingPolicy | None = None,
        seed: int = 0,
        overlap: bool | None = None,
        recycle_after: int = 2000,
    ) -> None:
        check_verify(verify)
        if builders is not None and builders < 1:
            raise TargetError(f"builders={builders}; give 1 or more")
        patience = Patience(build_timeout, slow_build)
        self.workload = workload
        self.target = as_cpu(target)
        self.best_so_far: float | None = None
        self._tracker = tracker_address(tracker)
        self._key = key
        self._run_timeout = run_timeout
        self._verify: Verify = verify
        self._timing = timing or TimingPolicy()
        self._measured = 0
        self._serials = itertools.count()
        self._reference_latency: float | None = None
        servers = find_servers(self._tracker, key)
        limits = Limits(
            builders=builders or Target("cpu").cores,
            servers=len(servers),
            overlap=overlap if overlap is not None else not any(map(is_here, servers)),
            threads=self.target.cores,
            server_timeout=server_timeout,
            recycle_after=recycle_after,
        )
        self._folder = tempfile.TemporaryDirectory(
            prefix="schedlang-rpc-", ignore_cleanup_errors=True
        )
        self._seed = seed
        start = self._start()
        pool = WorkerPool(
            limits.workers,
            1,
            start,
            _accept,
            program="schedlang.targets.rpc.worker",
            # What a killed worker leaves is removed with the folder.
            scratch=Path(self._folder.name),
        )
        self._crew = Crew(pool, key, start.blobs[0], limits, patience, self._how_to_run)

    @property
    def runs(self) -> Counter[str]:
        """How many candidates were run on each server."""
        return self._crew.runs

    def bind(self, workload: Workload) -> None:
        """Measure candidates of ``workload`` from now on; see ``Measurer.bind``."""
        if workload == self.workload:
            return
        super().bind(workload)
        self._measured = 0
        self._reference_latency = None
        self._crew.restart(self._start())

    def _start(self) -> Request:
        return start_request(
            self.workload,
            self.target,
            self._seed,
            reference=self._verify is not False,
            tracker=list(self._tracker),
            key=self._key,
            scratch=self._folder.name,
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
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Time a few candidates against each other, with one sample of each in a round.

        Returns one measurement for each, in the same order: those that are ok have equally many
        samples, ``rounds`` or what was done in ``budget_seconds``, and were verified once more
        unless ``verify`` is False. Each sample is taken in a session of its own, on any server.
        """
        check_rounds(rounds)
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
            if number >= FEWEST_ROUNDS and time.monotonic() >= end:
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
            work = self._work(Candidate(-1, self.workload.mod))
            work.library, work.timeout = self._crew.build_reference(), START_TIMEOUT
            work.policy, work.verify_factor = REFERENCE_TIMING, None
            ((work, reply),) = self._drive(deque(), deque([work]))
            if not reply.ok:
                raise TargetError(f"the unscheduled program cannot be timed: {explain(reply)}")
            samples = tuple(reply.header["samples"])
            self._reference_latency = Measurement(-1, Status.OK, samples).latency
        return self._reference_latency

    def close(self) -> None:
        """Kill all workers, which ends their sessions; safe to call twice."""
        self._crew.pool.close()
        self._folder.cleanup()

    def _drive(self, queue: deque[Work], built: deque[Work]) -> Iterator[tuple[Work, Reply]]:
        """Build and run until all have a last reply; ``built`` need no building."""
        if (queue or built) and self._verify is not False:
            self._crew.build_reference()
        return self._crew.drive(queue, built)

    def _how_to_run(self, work: Work) -> dict[str, Any]:
        if work.policy is not None:
            policy, best, factor = work.policy, None, work.verify_factor
        else:
            policy, best = self._timing, self.best_so_far
            factor = verify_factor(self._verify, self._measured)
        return {"policy": asdict(policy), "best": best, "verify_factor": factor}

    def _work(self, candidate: Candidate) -> Work:
        return Work(candidate.id, next(self._serials), candidate.module, self._run_timeout)

    def _measurement(self, work: Work, reply: Reply) -> Measurement:
        return Measurement(
            work.id,
            Status.OK if reply.ok else reply.status,
            tuple(reply.header.get("samples", ())),
            "" if reply.ok else explain(reply),
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
