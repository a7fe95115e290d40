"""Measuring on the CPU of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

from schedlang import host
from schedlang.errors import TargetError
from schedlang.targets.cpu.cpu_machine import CPUMachine, as_cpu
from schedlang.targets.measure.draws import MANY_STEPS
from schedlang.targets.target import Target
from schedlang.targets.worker.executor import Executor, Work, fitting_workers, share_of_memory
from schedlang.targets.worker.measurer import PooledMeasurer, PoolOptions
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.preparation import LargePolicy
from schedlang.targets.worker.protocol import Reply, Request
from schedlang.workloads.workload import Workload

_PROGRAM = "schedlang.targets.cpu.worker"
_CANDIDATES_A_WORKER = 8


class CPUExecutor(Executor):
    """Workers that build at once, and then run one after another what they have built.

    Parameters
    ----------
    machine: the CPU.
    workers: number of workers where memory has room for them.
    memory_bytes: limit on the data of one worker, see ``LocalCPU``.
    """

    overlap = False
    in_lane = True

    def __init__(
        self, machine: CPUMachine, workers: int, memory_bytes: int | Literal["share"] | None
    ) -> None:
        self._machine, self._workers, self._memory_bytes = machine, workers, memory_bytes
        self.runners = WorkerPool(workers, machine.cores, _PROGRAM, self._check_start)
        self.builders = self.runners
        self.build_lanes = workers
        self._previous: Slot | None = None

    @property
    def most_waiting(self) -> int:  # type: ignore[override]
        """Number of programs of a turn."""
        return _CANDIDATES_A_WORKER * self.runners.size

    def size_for(self, workload: Workload) -> int:
        return fitting_workers(workload, self._workers, host.available_memory())

    def set_up(self) -> dict[str, Any]:
        memory = self._memory_bytes
        if memory == "share":
            memory = share_of_memory(self.runners.size)
        cpus = list(self._machine.cpus)
        return {"code": self._machine.spec(), "memory_bytes": memory, "cpus": cpus}

    def learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        """Do as others do, when all workers are there: those that start would disturb its times."""
        if not self.runners.start_all(until):
            return None
        return super().learn(until, programs, seconds)

    def start(self, slot: Slot, work: Work) -> Request:
        """Run it when the threads of the worker that ran before sleep."""
        previous, self._previous = self._previous, slot
        if previous is not None and previous is not slot and previous.idle:
            self.runners.settle(previous)
        return self.run(work)

    def _check_start(self, reply: dict[str, Any]) -> None:
        if reply["threads"] != self._machine.cores:
            self.close()
            raise TargetError(
                f"a worker's parallel loops use {reply['threads']} threads, and the target has "
                f"{self._machine.cores} cores"
            )


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
        begun where its code is larger than this multiple of the median's, and has more than 8,000
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
    _large = LargePolicy(shared_steps=MANY_STEPS)

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
        machine = as_cpu(target)
        machine.check_present()
        size = workers or machine.cores
        super().__init__(
            workload,
            machine,
            lambda: CPUExecutor(machine, size, memory_bytes),
            slow_build,
            **options,
        )

    @property
    def verification(self) -> Mapping[str, float]:
        """Seconds that the workers spent on verification so far, by part.

        They are ``references`` (the right results, in all workers together), ``fill`` (inputs and
        outputs before calls), ``poison`` (of workspaces), ``other draws`` (calls on them),
        ``repeats`` (further calls, and comparing each) and ``compare``. The first call of a
        candidate is no part of it: timing needs one too.
        """
        return self._pool.spent
