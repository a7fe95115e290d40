"""Measuring on a GPU of this machine."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from schedlang.errors import TargetError
from schedlang.measurement import Candidate, Measurement
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.targets import host
from schedlang.targets.cuda.availability import find_device
from schedlang.targets.cuda.running.built import LoadRequests
from schedlang.targets.cuda.running.pipeline import Pipeline, ask
from schedlang.targets.cuda.running.reference import DeviceReference
from schedlang.targets.measure.interleaved import InterleavedTiming
from schedlang.targets.measure.memory import MEMORY_PART, fitting_workers
from schedlang.targets.measure.timing import REFERENCE_TIMING, TimingPolicy
from schedlang.targets.measure.work import Work
from schedlang.targets.pooled.measurer import PooledMeasurer, PoolOptions
from schedlang.targets.target import as_target
from schedlang.targets.worker.pool import WorkerPool
from schedlang.targets.worker.request import START_TIMEOUT, Reply, Request
from schedlang.targets.worker.scratch import ScratchFolder
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.targets.cuda.target import CUDATarget

GPU_TIMING = TimingPolicy(min_repeats=7, max_repeats=200, flush_cache=True)
"""Calls are timed one by one, each with an empty L2 cache."""

_BUILDER = "schedlang.targets.cuda.running.builder"
_RUNNER = "schedlang.targets.cuda.running.worker"
_LEAST_MEMORY = 2 << 30


class LocalCUDA(PooledMeasurer):
    """Builds candidates in worker processes on this machine, and runs them on one of its GPUs.

    Programs are built on all cores, limits of the GPU checked first, while one worker runs those
    that are ready, one after another. A candidate that the GPU stops, that hangs or runs out of
    memory gets its status; the worker on the GPU is replaced. Where another process uses the GPU
    meanwhile, or its clocks change, a candidate is timed again, and it has no latency where that
    happens three times.

    Parameters
    ----------
    workload: the program before scheduling; candidates must compute what it computes. It runs on
        the CPU for that, or where it takes more than about two seconds there, on the GPU with TVM's
        default threads, a part of its results compared with the CPU's.
    target: a Target, its name, or one of TVM's of kind cuda; a GPU of this machine must fit it.
    builders: number of processes that build; by default the number of cores.
    options: those of ``PooledMeasurer``; a build gets 60 seconds, and ``timing`` is ``GPU_TIMING``.

    Attributes
    ----------
    best_so_far: lowest latency measured, in seconds: candidates that are surely slower are given
        up early.
    deadline: of ``time.monotonic``; when it comes ``measure`` stops, whatever runs, and what was
        not measured gets no measurement.
    seconds: wall time of ``measure``, by activity: ``start`` (waiting for workers), ``build`` (the
        GPU had nothing to run), ``run``.

    Raises ``TargetError`` where no GPU of this machine is the target, ``WorkloadError`` for a
    workload that memory cannot hold, and ``ValueError`` or ``TypeError`` for inputs, a tolerance or
    a reference that do not fit the workload. ``measure`` raises ``TargetError`` when no worker
    starts and ``WorkloadError`` when the unscheduled program itself fails, and never because of a
    candidate.
    """

    _builder_program, _runner_program = _BUILDER, _RUNNER
    _large = DeviceReference()
    _usual_timing = GPU_TIMING
    _make_requests = LoadRequests
    _usual_build_timeout = 60.0
    target: CUDATarget
    _requests: LoadRequests

    def __init__(
        self,
        workload: Workload | None,
        target: CUDATarget | str | Any = "cuda",
        *,
        builders: int | None = None,
        **options: Unpack[PoolOptions],
    ) -> None:
        if builders is not None and builders < 1:
            raise TargetError(f"builders={builders}; give 1 or more")
        super().__init__(as_cuda(target), **options)
        self.device = find_device(self.target).index
        self._scratch = ScratchFolder()
        cores = max(len(host.usable_cpus()), 1)
        size = builders or cores
        build = WorkerPool(size, 1, _accept, self._builder_program, str, self._scratch.path)
        build.start = self._builder_start(size)
        run = WorkerPool(1, 1, _accept, self._runner_program, self._explain_crash, first=size)
        self._pipeline = Pipeline(build, run, self._recycle_after, self.seconds)
        if workload is not None:
            self.bind(workload)

    @property
    def _main_pool(self) -> WorkerPool:
        return self._pipeline.runner

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish.

        An abandoned iteration leaves none behind.
        """
        works = deque(Work(candidate, next(self._serials)) for candidate in candidates)
        try:
            if not works or not self._prepare(self.deadline):
                return
            for work, reply in self._pipeline.drive(
                works, self._requests, self._run_request, self.deadline
            ):
                yield self._count(work.measurement(reply))
        finally:
            self._abandon()

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Time a few candidates against each other, with one sample of each per round.

        They are built in parallel first. The rest is as ``LocalCPU.remeasure`` has it. Raises
        ValueError when ``rounds`` is below 1.
        """
        self._prepare(self.deadline)
        works = [Work(candidate, next(self._serials)) for candidate in candidates]
        pipeline, requests = self._pipeline, self._requests
        try:
            failed = {
                work.serial: work.measurement(reply)
                for work, reply in pipeline.build(deque(works), requests)
            }
            timing = InterleavedTiming(pipeline.runner, requests, verify=self._verify.enabled)
            left = [work for work in works if work.serial not in failed]
            timed = iter(timing.measure(left, rounds, budget_seconds))
            return [failed.get(work.serial) or next(timed) for work in works]
        finally:
            self._abandon()

    def close(self) -> None:
        """Kill all workers and remove their files; safe to call twice."""
        self._pipeline.builders.close()
        self._pipeline.runner.close()
        self._scratch.close()

    def _builder_start(self, size: int) -> Request:
        """Return the first request to a build worker."""
        free = host.available_memory()
        memory = None if free is None else max(int(MEMORY_PART * free / size), _LEAST_MEMORY)
        header = {
            "request": "start",
            "code": self.target.spec(),
            "arch": self.target.arch,
            "memory_bytes": memory,
            "scratch": str(self._scratch.path),
        }
        return Request(header, timeout=START_TIMEOUT)

    def _size_for(self, workload: Workload) -> int:
        return fitting_workers(workload, 1, host.available_memory())

    def _set_up(self) -> dict[str, Any]:
        code = {**self.target.spec(), "device": self.device}
        return {"code": code, "l2_bytes": self.target.l2_bytes}

    def _rebind(self, start: Request, bind: Request) -> None:
        """Name the file for the right results, which outlive a worker."""
        results = str(self._scratch.path / f"results{next(self._serials)}")
        super()._rebind(
            *(
                replace(request, header={**request.header, "results": results})
                for request in (start, bind)
            )
        )

    def _learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        """Do what ``Learn`` says: the schedule on the GPU, the part of the program on the CPU."""
        header: dict[str, Any] = {"request": "learn"}
        if programs:
            built = self._build_one(programs[0], seconds, until)
            if built is None or not built.ok:
                return built
            header |= {**built.header, "request": "learn"}
        request = Request(header, tuple(programs[1:]), seconds)
        return ask(self._pipeline.runner, request, until)

    def _build_one(self, program: bytes, seconds: float, until: float) -> Reply | None:
        header = {"request": "build", "id": next(self._serials)}
        return ask(self._pipeline.builders, Request(header, (program,), seconds), until)

    def _time_reference(self) -> float:
        """Time the unscheduled program on the GPU, where TVM's default threads run it.

        NaN where the deadline comes first, and where TVM has no default for it.
        """
        if not self._prepare(self.deadline):
            return math.nan
        work = Work(Candidate(REFERENCE_ID, self.workload.mod), next(self._serials))
        timing = replace(REFERENCE_TIMING, flush_cache=self._requests.timing.flush_cache)
        requests = replace(self._requests, timing=timing, run_timeout=START_TIMEOUT)
        request = partial(requests.run, best=None, verify_factor=None)
        for found, reply in self._pipeline.drive(deque([work]), requests, request, self.deadline):
            measurement = found.measurement(reply)
            return measurement.latency if measurement.ok else math.nan
        return math.nan

    def _run_request(self, work: Work) -> Request:
        return self._requests.run(work, self.best_so_far, self._verify.factor)

    def _abandon(self) -> None:
        self._pipeline.abandon()
        for built in self._requests.built_programs.values():
            built.remove()
        self._requests.built_programs.clear()


def as_cuda(given: Any) -> CUDATarget:
    """Return the CUDA target that ``given`` means; TargetError for others."""
    from schedlang.targets.cuda.target import CUDATarget

    target = as_target(given)
    if not isinstance(target, CUDATarget):
        raise TargetError(f"LocalCUDA measures on NVIDIA GPUs, and {target!r} is none")
    return target


def _accept(reply: dict[str, Any]) -> None:
    """Every worker that has started will do."""
