"""Measuring on a GPU of this machine."""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from schedlang.errors import TargetError
from schedlang.measurement import Candidate, Measurement, Measurer
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.targets import host
from schedlang.targets.cuda.availability import find_device
from schedlang.targets.cuda.running.built import LoadRequests
from schedlang.targets.cuda.running.pipeline import Pipeline, ask
from schedlang.targets.cuda.running.reference import DeviceReference
from schedlang.targets.measure.crash import explain_crash
from schedlang.targets.measure.expected.preparation import RUN_TIMEOUT, Preparation
from schedlang.targets.measure.expected.problem import ComputeReference, Inputs, Problem
from schedlang.targets.measure.expected.tolerance import GivenTolerance
from schedlang.targets.measure.interleaved import InterleavedTiming
from schedlang.targets.measure.memory import MEMORY_PART, fitting_workers
from schedlang.targets.measure.timing import REFERENCE_TIMING, TimingPolicy
from schedlang.targets.measure.verification.policy import Verify, VerifyPolicy
from schedlang.targets.measure.work import Work, binding_requests
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


class LocalCUDA(Measurer):
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
    build_timeout, run_timeout: seconds; ``run_timeout`` limits all runs of a candidate together. It
        is 10 by default, and more for a large workload.
    verify: compare results with the unscheduled program's. True does so for the first few
        candidates and those whose latency is at most 1.2 times the best so far; ``"all"`` verifies
        every candidate, False disables it.
    timing: how often to run a candidate; by default ``GPU_TIMING``.
    seed: of the random inputs.
    inputs, tolerance, reference: as ``tune`` takes them.
    recycle_after: replace a worker after this many requests, which bounds memory leaks.

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

    def __init__(
        self,
        workload: Workload,
        target: CUDATarget | str | Any = "cuda",
        *,
        builders: int | None = None,
        build_timeout: float = 60.0,
        run_timeout: float | None = None,
        verify: Verify = True,
        timing: TimingPolicy | None = None,
        seed: int = 0,
        inputs: Inputs | None = None,
        tolerance: GivenTolerance | None = None,
        reference: ComputeReference | None = None,
        recycle_after: int = 2000,
    ) -> None:
        self._verify = VerifyPolicy(verify)
        if builders is not None and builders < 1:
            raise TargetError(f"builders={builders}; give 1 or more")
        self.problem = Problem(inputs, tolerance, reference)
        self.workload = workload
        self.target = as_cuda(target)
        self.device = find_device(self.target).index
        self._large = DeviceReference()
        self._run_timeout, self._seed = run_timeout, seed
        self._requests = LoadRequests(timing or GPU_TIMING, build_timeout, RUN_TIMEOUT)
        self._serials = itertools.count()
        self._scratch = ScratchFolder()
        cores = max(len(host.usable_cpus()), 1)
        size = builders or cores
        start, _ = self._begin()
        builder = self._builder_start(size)
        self._pipeline = Pipeline(
            WorkerPool(size, 1, builder, _accept, self._builder_program, str, self._scratch.path),
            WorkerPool(1, 1, start, _accept, self._runner_program, self._explain_crash, first=size),
            recycle_after,
        )
        self.seconds = self._pipeline.seconds

    @property
    def key(self) -> str:
        """Equal for measurers whose latencies compare."""
        return f"verify={self._verify.verify} {self._requests.timing}{self.problem.key}"

    @property
    def unreached(self) -> Sequence[str]:
        """Sides of the unscheduled program's branches that no inputs take; known after a start."""
        found: list[str] = self._pipeline.runner.greeting.get("unreached", [])
        return found

    def bind(self, workload: Workload) -> None:
        """Measure candidates of ``workload`` from now on, in the workers that run already."""
        if workload == self.workload:
            return
        super().bind(workload)
        self._verify.measured = 0
        self._pipeline.runner.rebind(*self._begin())

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish.

        An abandoned iteration leaves none behind.
        """
        works = deque(Work(candidate, next(self._serials)) for candidate in candidates)
        try:
            if not works or not self._prepare():
                return
            for work, reply in self._pipeline.drive(
                works, self._requests, self._run_request, self.deadline
            ):
                yield self._result(work, reply)
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
        self._prepare()
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

    def _begin(self) -> tuple[Request, Request]:
        """Return the requests that bind a new and a running worker on the GPU to the workload."""
        fitting_workers(self.workload, 1, host.available_memory())
        self._preparation = Preparation(
            self.workload,
            self.target,
            self._seed,
            self.problem,
            self._large,
            verifies=self._verify.enabled,
            run_timeout=self._run_timeout,
        )
        return self._binding_requests()

    def _binding_requests(self) -> tuple[Request, Request]:
        set_up = {
            "code": {**self.target.spec(), "device": self.device},
            "l2_bytes": self.target.l2_bytes,
        }
        results = self._scratch.path / f"results{next(self._serials)}"
        start, bind = (
            replace(request, header={**request.header, "results": str(results)})
            for request in binding_requests(self._preparation.binding, set_up)
        )
        return start, bind

    def _prepare(self) -> bool:
        """Find the right results, unless the worker does; False where the deadline came first."""
        preparation = self._preparation
        if not preparation.done:
            started = time.perf_counter()
            found = preparation.find(partial(self._learn, self.deadline))
            self._pipeline.seconds["start"] += time.perf_counter() - started
            if not found:
                return False
            self._pipeline.runner.rebind(*self._binding_requests())
        self._requests = replace(self._requests, run_timeout=preparation.run_timeout)
        return True

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
        if not self._prepare():
            return math.nan
        work = Work(Candidate(REFERENCE_ID, self.workload.mod), next(self._serials))
        timing = replace(REFERENCE_TIMING, flush_cache=self._requests.timing.flush_cache)
        requests = replace(self._requests, timing=timing, run_timeout=START_TIMEOUT)
        request = partial(requests.run, best=None, verify_factor=None)
        for found, reply in self._pipeline.drive(deque([work]), requests, request, self.deadline):
            measurement = found.measurement(reply)
            return measurement.latency if measurement.ok else math.nan
        return math.nan

    def _explain_crash(self, reply: Reply) -> str:
        return explain_crash(self._preparation.binding, reply)

    def _run_request(self, work: Work) -> Request:
        return self._requests.run(work, self.best_so_far, self._verify.factor)

    def _result(self, work: Work, reply: Reply) -> Measurement:
        measurement = work.measurement(reply)
        if measurement.ok:
            self._verify.measured += 1
            self._note_best(measurement)
        return measurement

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
