"""Measuring on a GPU of this machine."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

from schedlang import host
from schedlang.errors import TargetError
from schedlang.measurement import Candidate
from schedlang.measurement.measurer import REFERENCE_ID
from schedlang.spaces.space import Space
from schedlang.targets.cuda.target import CUDATarget, find_device
from schedlang.targets.measure.timing import REFERENCE_TIMING, TimingPolicy
from schedlang.targets.target import as_target
from schedlang.targets.worker.executor import Executor, Next, Work, fitting_workers, share_of_memory
from schedlang.targets.worker.measurer import PooledMeasurer, PoolOptions
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.preparation import LargePolicy
from schedlang.targets.worker.process import ScratchFolder
from schedlang.targets.worker.protocol import START_TIMEOUT, Reply, Request
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram

GPU_TIMING = TimingPolicy(min_repeats=7, max_repeats=200, flush_cache=True)
"""Calls are timed one by one, each with an empty L2 cache."""

_BUILDER = "schedlang.targets.cuda.builder"
_RUNNER = "schedlang.targets.cuda.worker"
# More than this wait for the GPU: no others are built, as what the search learns comes first.
_WAITING_A_BUILDER = 2


class CUDAExecutor(Executor):
    """Workers that build, and one on the GPU that loads and runs what they have built."""

    def __init__(self, target: CUDATarget, builders: int, programs: tuple[str, str]) -> None:
        self._target, self._device = target, find_device(target).index
        self._serials = itertools.count()
        self.build_lanes, self.most_waiting = builders, _WAITING_A_BUILDER * builders
        self.scratch = ScratchFolder()
        build, run = programs
        self.builders = WorkerPool(builders, 1, build, scratch=self.scratch.path)
        header = {
            "request": "start",
            "code": target.spec(),
            "arch": target.arch,
            "memory_bytes": share_of_memory(builders),
            "scratch": str(self.scratch.path),
        }
        self.builders.start = Request(header, timeout=START_TIMEOUT)
        self.runners = WorkerPool(1, 1, run, first=builders)

    def size_for(self, workload: Workload) -> int:
        return fitting_workers(workload, 1, host.available_memory())

    def set_up(self) -> dict[str, Any]:
        code = {**self._target.spec(), "device": self._device}
        return {"code": code, "l2_bytes": self._target.l2_bytes}

    def rebind(self, start: Request, bind: Request) -> None:
        """Name the file for the right results, too: they outlive a worker."""
        assert self.scratch is not None
        results = {"results": str(self.scratch.path / f"results{next(self._serials)}")}
        named = (replace(one, header={**one.header, **results}) for one in (start, bind))
        super().rebind(*named)

    def learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        """Run the schedule on the GPU, and the part of the program on the CPU."""
        header: dict[str, Any] = {"request": "learn"}
        if programs:
            build = Request({"request": "build", "id": "learned"}, (programs[0],), seconds)
            built = self.builders.ask_first(build, until)
            if built is None or not built.ok:
                return built
            header["built"] = built.header
        return self.runners.ask_first(Request(header, tuple(programs[1:]), seconds), until)

    def start(self, slot: Slot, work: Work) -> Request:
        """Load it first."""
        request = self.requests.build(work, discard=True)
        assert isinstance(request, Request)
        return request

    def advance(
        self, slot: Slot, work: Work, step: str, reply: Reply, ready: deque[Work]
    ) -> tuple[Work, Next]:
        if step != "build":
            return work, self.requests.ran(work, reply)
        reply = self.requests.built(work, reply)
        return work, self.run(work) if reply.ok else reply


@dataclass(frozen=True, slots=True)
class DeviceReference(LargePolicy):
    """When a workload is too large for the CPU, and what gives its results on the GPU.

    The unscheduled program does first: it is compiled with TVM's default threads, each of which
    computes an element as the program says. Then samples of the space.
    """

    def attempts(self, workload: Workload, space: Space) -> Iterator[tuple[TensorProgram, float]]:
        """Yield programs to try, and the seconds that each may take."""
        yield workload.mod, 2 * self.schedule_seconds
        yield from LargePolicy.attempts(self, workload, space)


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
    slow_build: a build is given up when it takes more than this multiple of the median build, and
        more than 5 seconds, of processor time, nvcc's included: what takes so long is long code of
        many registers, which is slow. ``math.inf`` disables it.
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
    _usual_build_timeout = 60.0
    # nvcc takes seconds, and a run some hundredths of one.
    _builders_a_lane = 64

    def __init__(
        self,
        workload: Workload | None,
        target: CUDATarget | str | Any = "cuda",
        *,
        builders: int | None = None,
        slow_build: float = 6.0,
        **options: Unpack[PoolOptions],
    ) -> None:
        if builders is not None and builders < 1:
            raise TargetError(f"builders={builders}; give 1 or more")
        gpu = as_cuda(target)
        programs = self._builder_program, self._runner_program
        cores = max(len(host.usable_cpus()), 1)
        size = builders or cores
        super().__init__(
            workload, gpu, lambda: CUDAExecutor(gpu, size, programs), slow_build, **options
        )

    def _time_reference(self) -> float:
        """Time the unscheduled program on the GPU, where TVM's default threads run it.

        NaN where the deadline comes first, and where TVM has no default for it.
        """
        if not self._prepare(self.deadline):
            return math.nan
        work = Work(Candidate(REFERENCE_ID, self.workload.mod), next(self._serials))
        flush_cache = self._executor.requests.timing.flush_cache
        timing = replace(REFERENCE_TIMING, flush_cache=flush_cache)

        def run(work: Work) -> Request:
            return self._executor.requests.run(work)

        reply = self._run_reference(work, run, timing, START_TIMEOUT)
        return work.measurement(reply).latency if reply is not None and reply.ok else math.nan


def as_cuda(given: Any) -> CUDATarget:
    """Return the CUDA target that ``given`` means; TargetError for others."""
    target = as_target(given)
    if not isinstance(target, CUDATarget):
        raise TargetError(f"LocalCUDA measures on NVIDIA GPUs, and {target!r} is none")
    return target
