"""Measuring on the CPU of this machine."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Unpack

from schedlang.errors import TargetError
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS
from schedlang.targets import host
from schedlang.targets.cpu.machine import CPUMachine, as_cpu
from schedlang.targets.measure.expected.large import learn_in_worker
from schedlang.targets.measure.interleaved import InterleavedTiming
from schedlang.targets.measure.memory import MEMORY_PART, fitting_workers
from schedlang.targets.measure.reference_timing import time_large_reference, time_reference
from schedlang.targets.measure.work import Work
from schedlang.targets.pooled.measurer import PooledMeasurer, PoolOptions
from schedlang.targets.target import Target
from schedlang.targets.worker.pool import Slot, WorkerPool, idle_slots
from schedlang.targets.worker.request import Reply, Request
from schedlang.workloads.workload import Workload

_PROGRAM = "schedlang.targets.cpu.worker"
_CANDIDATES_A_WORKER = 8
_LEAST_MEMORY = 2 << 30
# Workloads whose right results are kept for when it is bound to them again.
_PREPARATIONS = 64


class LocalCPU(PooledMeasurer):
    """Builds and runs candidates in worker processes on this machine.

    All workers build programs at once; then the programs run one after another, each in the worker
    that built it, while every other worker is idle: builds and measurements never share the
    machine. A candidate that hangs, crashes or runs out of memory loses its worker and gets its
    status, and a new worker takes the place.

    Parameters
    ----------
    workload: the program before scheduling; candidates must compute what it computes. None where
        ``bind`` gives it.
    target: a Target, its name, or one of TVM's of kind llvm; it must be this machine.
    workers: number of worker processes; by default the number of cores. There are fewer where
        the workload's tensors would not fit into memory once for each.
    slow_build: a build is given up when it takes more than this multiple of the median build, and
        more than 5 seconds, of processor time: such programs are too large to be fast. It is not
        begun where its code is larger than this multiple of the median's, and has more than 20,000
        loads and stores. ``math.inf`` disables both.
    memory_bytes: limit on the data of one worker; ``"share"`` gives each an equal part of most of
        the memory that is free now, but at least 2 GiB; None disables the limit.
    options: those of ``PooledMeasurer``.

    Attributes
    ----------
    best_so_far: lowest latency measured, in seconds: candidates that are surely slower are given
        up early.
    deadline: of ``time.monotonic``; when it comes ``measure`` stops, whatever runs, and what was
        not measured gets no measurement. ``reference_latency`` keeps it too.
    seconds: wall time of ``measure``, by activity: ``start`` (waiting for workers), ``build``,
        ``run``.

    Raises ``TargetError`` for a target that this machine is not, ``WorkloadError`` for a workload
    that its memory cannot hold, and ``ValueError`` or ``TypeError`` for inputs, a tolerance or a
    reference that do not fit the workload. ``measure`` raises ``TargetError``
    when no worker starts and ``WorkloadError`` when the unscheduled program itself fails, and never
    because of a candidate.
    """

    target: CPUMachine

    def __init__(
        self,
        workload: Workload | None,
        target: Target | str | Any = "cpu",
        *,
        workers: int | None = None,
        slow_build: float = 20.0,
        memory_bytes: int | Literal["share"] | None = "share",
        **options: Unpack[PoolOptions],
    ) -> None:
        if workers is not None and workers < 1:
            raise TargetError(f"workers={workers}; give 1 or more")
        super().__init__(as_cpu(target), slow_build, **options)
        self.target.check_present()
        self._memory_bytes = memory_bytes
        self._workers = workers or self.target.cores
        self._pool = WorkerPool(
            self._workers, self.target.cores, self._check_start, _PROGRAM, self._explain_crash
        )
        if workload is not None:
            self.bind(workload)

    @property
    def verification(self) -> Mapping[str, float]:
        """Seconds that the workers spent on verification so far, by part.

        They are ``references`` (the right results, in all workers together), ``fill`` (inputs and
        outputs before calls), ``poison`` (of workspaces), ``other draws`` (calls on them),
        ``repeats`` (further calls, and comparing each) and ``compare``. The first call of a
        candidate is no part of it: timing needs one too.
        """
        return self._pool.spent

    @property
    def _main_pool(self) -> WorkerPool:
        return self._pool

    def _size_for(self, workload: Workload) -> int:
        return fitting_workers(workload, self._workers, host.available_memory())

    def _set_up(self) -> dict[str, Any]:
        memory = self._memory_bytes
        if memory == "share":
            memory = _share_of_memory(self._pool.size)
        return {
            "code": self.target.spec(),
            "memory_bytes": memory,
            "cpus": list(self.target.cpus),
        }

    def _learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        return learn_in_worker(self._pool, until, programs, seconds)

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish.

        Nothing runs while the consumer has control, and an abandoned iteration leaves none behind.
        """
        pending = deque(Work(candidate, next(self._serials)) for candidate in candidates)
        try:
            while pending and not self._late() and self._prepare(self.deadline):
                failed, built = self._build_some(pending)
                yield from failed
                yield from self._run_built(built, pending)
        finally:
            self._abandon()

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Time a few candidates against each other, with one sample of each per round.

        Returns one measurement per candidate, in the same order. Successful ones all have the same
        number of samples: ``rounds``, up to four times that while the medians of the two fastest
        are too uncertain, or the rounds done in ``budget_seconds``. Their results are verified
        again unless ``verify`` is False. Raises ValueError when ``rounds`` is below 1.
        """
        self._prepare(self.deadline)
        timing = InterleavedTiming(self._pool, self._requests, verify=self._verify.enabled)
        works = [Work(candidate, next(self._serials)) for candidate in candidates]
        try:
            return timing.measure(works, rounds, budget_seconds)
        finally:
            self._abandon()

    def close(self) -> None:
        """Kill all workers; safe to call twice."""
        self._pool.close()

    def _time_reference(self) -> float:
        """Time the unscheduled program; a single call of it where the deadline is near.

        That of a large workload is cut off after a while.
        """
        if not self._prepare(self.deadline):
            return math.nan
        first = self._preparation.first
        if first is not None and first.unscheduled:
            return first.reference.seconds
        if not self._preparation.is_large:
            return time_reference(self._pool, self.deadline)
        found = time_large_reference(self._pool, self._large, self.deadline)
        self.reference_complete = found.complete
        return found.seconds

    def _check_start(self, reply: dict[str, Any]) -> None:
        if reply["threads"] != self.target.cores:
            self.close()
            raise TargetError(
                f"a worker's parallel loops use {reply['threads']} threads, and the target has "
                f"{self.target.cores} cores"
            )

    def _build_some(
        self, pending: deque[Work]
    ) -> tuple[list[Measurement], list[tuple[Slot, Work]]]:
        """Build the candidates of one round; return the failures and the work ready to run."""
        pool = self._pool
        for slot in pool.slots:
            if slot.requests >= self._recycle_after:
                pool.drop(slot)
        queue = deque[Work]()
        while pending and len(queue) < _CANDIDATES_A_WORKER * pool.size:
            queue.append(pending.popleft())
        failed: list[Measurement] = []
        built: list[tuple[Slot, Work]] = []
        building: dict[int, Work] = {}
        # A worker's first build discards leftovers of an earlier, abandoned call.
        emptied: set[int] = set()
        while (queue or building or pool.starting) and not self._late():
            suspects = any(work.suspect for work in queue)
            pool.populate(pool.size if suspects else len(queue) + len(building))
            for slot in idle_slots(pool.slots):
                work = _next_for(slot, queue)
                if work is None:
                    continue
                work.most_size = self._build_timeout.most_size(postponed=work.postponed)
                request = self._requests.build(work, discard=slot.serial not in emptied)
                if isinstance(request, Reply):
                    failed.append(work.measurement(request))
                    continue
                emptied.add(slot.serial)
                building[slot.serial] = work
                pool.submit(slot, request)
            started = time.perf_counter()
            part = "build" if building else "start"
            limit = self._build_timeout.limit
            for slot in pool.slots:
                if slot.serial in building:
                    pool.shorten(slot, limit)
            ended = pool.wait(self.deadline)
            self.seconds[part] += time.perf_counter() - started
            for slot, reply in ended:
                work = building.pop(slot.serial)
                if reply.ok:
                    self._requests.built(work, reply)
                    self._build_timeout.note(reply.seconds, reply.header["size"])
                    built.append((slot, work))
                    continue
                size = reply.header.get("size")
                if size is not None and not work.postponed:
                    # Others are built first: what is large can be told then.
                    work.note(reply)
                    work.postponed = True
                    queue.append(work)
                    continue
                if reply.lost:
                    queue.extendleft(other for holder, other in built if holder is slot)
                    built = [entry for entry in built if entry[0] is not slot]
                if reply.retry and not work.suspect:
                    work.note(reply)
                    work.suspect = True
                    queue.appendleft(work)
                else:
                    if size is not None:
                        why = self._build_timeout.describe_size(size)
                        reply = reply.failed_as(Status.BUILD_TIMEOUT, why)
                    late = self._build_timeout.describe(reply.seconds)
                    failed.append(work.measurement(self._requests.built(work, reply, late)))
        return failed, built

    def _run_built(
        self, built: list[tuple[Slot, Work]], pending: deque[Work]
    ) -> Iterator[Measurement]:
        # Suspects first: nothing else has run in their worker.
        left = deque(sorted(built, key=lambda entry: (entry[0].serial, not entry[1].suspect)))
        previous: Slot | None = None
        while left and not self._late():
            started = time.perf_counter()
            slot, work = left.popleft()
            if not slot.idle:
                # Its worker was lost with the code: build it again in the next round.
                pending.appendleft(work)
                continue
            if previous is not None and previous is not slot and previous.idle:
                self._pool.settle(previous)
            previous = slot
            reply = self._pool.ask_until(slot, self._run_request(work), self.deadline)
            self.seconds["run"] += time.perf_counter() - started
            if reply is None:
                return
            if reply.retry and not work.suspect:
                work.note(reply)
                work.suspect = True
                pending.appendleft(work)
                continue
            yield self._count(work.measurement(self._requests.ran(work, reply)))

    def _run_request(self, work: Work) -> Request:
        return self._requests.run(work, self.best_so_far, self._verify.factor)

    def _late(self) -> bool:
        return time.monotonic() >= self.deadline

    def _abandon(self) -> None:
        for slot in self._pool.slots:
            if slot.request is not None and not slot.starting:
                self._pool.drop(slot)


def _share_of_memory(workers: int) -> int | None:
    free = host.available_memory()
    return None if free is None else max(int(MEMORY_PART * free / workers), _LEAST_MEMORY)


def _next_for(slot: Slot, queue: deque[Work]) -> Work | None:
    """Take the first of ``queue`` that this worker may build: suspects need a fresh worker."""
    for work in queue:
        if not work.suspect or not slot.used:
            queue.remove(work)
            return work
    return None
