"""Where programs are built and run: what differs between kinds of machine, and their candidates."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy
import numpy as np

from schedlang import host
from schedlang.errors import WorkloadError
from schedlang.measurement import Candidate, Measurement, Status
from schedlang.measurement.clock import Phase
from schedlang.measurement.disturbance import Disturbance
from schedlang.targets.errors import describe
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import draw_count, further_draws
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.measure.verification import REPEATS, Repeats
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.process import ScratchFolder
from schedlang.targets.worker.protocol import START_TIMEOUT, Reply, Request
from schedlang.tvm.analysis.branches import branches_of
from schedlang.tvm.analysis.partial_results import count_steps
from schedlang.tvm.packing import weight_positions
from schedlang.tvm.program import intermediate_sizes, to_json
from schedlang.workloads.workload import Workload

# -- A candidate on its way through the workers, and the measurement at the end -------------------


@dataclass(slots=True, eq=False)
class Work:
    """A candidate on its way.

    Attributes
    ----------
    candidate: the measured candidate.
    serial: its name inside the workers.
    suspect: a worker was lost with it that an earlier candidate may have damaged; it gets a second
        chance, in a fresh worker.
    postponed: its code is large; it is built when the size of others is known.
    most_size: code that is larger is not built; None for no limit.
    build_seconds, run_seconds: wall time spent on it so far.
    slot: the worker that built it.
    built: what that replied; it says where the program is. Empty before.
    server, lost_on: where it runs, and the servers that were lost with it.
    phases: what workers did for it so far.
    """

    candidate: Candidate
    serial: int
    suspect: bool = False
    postponed: bool = False
    most_size: int | None = None
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    phases: list[Phase] = field(default_factory=list)
    slot: Slot | None = None
    built: dict[str, Any] = field(default_factory=dict)
    server: str = ""
    lost_on: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name in a folder."""
        return f"candidate{self.serial}"

    def note(self, reply: Reply) -> None:
        """Keep what a worker did for it."""
        self.phases += reply.phases

    def measurement(self, reply: Reply) -> Measurement:
        """Make the measurement, from the last reply about it."""
        worker = self.phases[-1].worker if self.phases else None
        disturbance = reply.header.get("disturbance") if reply.ok else None
        return Measurement(
            self.candidate.id,
            Status.OK if reply.ok else Status(reply.status),
            tuple(reply.header.get("samples", ())),
            "" if reply.ok else str(reply.header["message"]),
            "" if reply.ok else reply.stderr,
            verified=reply.ok and reply.header["verified"],
            build_seconds=self.build_seconds,
            run_seconds=self.run_seconds,
            packed_ahead=reply.ok and reply.header.get("packed_ahead", False),
            disturbance=None if disturbance is None else Disturbance(**disturbance),
            worker=worker,
            phases=tuple(
                phase._replace(worker=None) if phase.worker == worker else phase
                for phase in self.phases
            ),
        )


def program_of(work: Work) -> bytes | Reply:
    """Write a candidate's program for a worker; a reply says why that is not possible."""
    try:
        return to_json(work.candidate.module).encode()
    except Exception as error:
        message = f"it cannot be written as JSON: {describe(error)}"
        return Reply.refusal(Status.BUILD_ERROR, message)


def binding_requests(
    binding: Binding, set_up: dict[str, Any], *, replaces: bool = False
) -> tuple[Request, Request]:
    """Return the requests that bind a new and a running worker to a workload.

    ``set_up`` holds further settings of a new worker. A worker that keeps workloads knows them by
    the header's ``fingerprint``; the binding before is not asked for again where this one
    ``replaces`` it.
    """
    header, parts = binding.pack()
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for part in parts:
        digest.update(hashlib.sha256(part).digest())
    header, blobs = {**header, "fingerprint": digest.hexdigest()}, tuple(parts)
    start = {"request": "start", **set_up, **header}
    bind = {"request": "bind", "replaces": replaces, **header}
    return Request(start, blobs, START_TIMEOUT), Request(bind, blobs, START_TIMEOUT)


def run_header(
    policy: TimingPolicy,
    best: float | None,
    verify_factor: float | None,
    repeats: Repeats = REPEATS,
) -> dict[str, Any]:
    """Say how to time and verify a program, for ``read_run_header``."""
    return {
        "policy": asdict(policy),
        "best": best,
        "verify_factor": verify_factor,
        "repeats": asdict(repeats),
    }


def read_run_header(
    header: dict[str, Any],
) -> tuple[TimingPolicy, float | None, float | None, Repeats]:
    """Read from a header what ``CandidateRunner.run`` takes after the program."""
    repeats = Repeats(**header["repeats"])
    return TimingPolicy(**header["policy"]), header["best"], header["verify_factor"], repeats


@dataclass(frozen=True, slots=True)
class Requests:
    """Makes the requests about candidates to workers that build and run them.

    Parameters
    ----------
    timing: how often to run a candidate.
    build_timeout, run_timeout: seconds.
    """

    timing: TimingPolicy
    build_timeout: float
    run_timeout: float

    def build(self, work: Work, *, discard: bool) -> Request | Reply:
        """Build it, and forget all others first if told to ``discard`` them.

        One that was built into a file is only loaded. A candidate that cannot be sent has its reply
        at once.
        """
        if "library" in work.built:
            header = {"request": "build", "id": work.serial, "discard": discard}
            return Request({**header, "built": work.built}, timeout=self.build_timeout)
        program = program_of(work)
        if isinstance(program, Reply):
            return program
        return self.build_of(work, program, discard=discard)

    def build_of(self, work: Work, program: bytes, *, discard: bool) -> Request:
        """Build it from the program, as ``program_of`` writes it."""
        header = {
            "request": "build",
            "id": work.serial,
            "discard": discard,
            "most_size": work.most_size,
        }
        return Request(header, (program,), self.build_timeout)

    def run(
        self,
        work: Work,
        best: float | None = None,
        verify_factor: float | None = None,
        *,
        repeats: Repeats = REPEATS,
        keep: bool = False,
    ) -> Request:
        """Time it, and verify it if it is fast enough; forget it then, unless told to keep it."""
        how = run_header(self.timing, best, verify_factor, repeats)
        header = {"request": "run", "id": work.serial, "keep": keep, **how}
        return Request(header, timeout=self.run_timeout, executes=True)

    def sample(self, works: Sequence[Work], calls: Sequence[int], *, verify: bool) -> Request:
        """Take one more sample of each of some candidates that were kept, in this order.

        ``calls`` are those of each sample. Verify the candidates once more if told to.
        """
        header = {
            "request": "sample",
            "programs": [(work.serial, n) for work, n in zip(works, calls, strict=True)],
            "verify": verify,
            "policy": asdict(self.timing),
        }
        return Request(header, timeout=self.run_timeout * len(works), executes=True)

    def built(self, work: Work, reply: Reply) -> Reply:
        """Apply the reply to a build; of one that was built elsewhere its time is known."""
        if not work.built:
            work.build_seconds = reply.seconds
        work.note(reply)
        if not reply.timed_out:
            return reply
        return reply.failed_as(Status.BUILD_TIMEOUT, reply.message(self.build_timeout))

    def ran(self, work: Work, reply: Reply) -> Reply:
        """Apply the reply to a run."""
        work.run_seconds += reply.seconds
        work.note(reply)
        if not reply.timed_out:
            return reply
        return reply.failed_as(Status.RUN_TIMEOUT, reply.message(self.run_timeout))


# -- Where programs are built and run -------------------------------------------------------------

Next = Request | Reply | None
"""What follows a step: another one, the last reply about the program, or waiting again."""


class Executor(ABC):
    """Runs programs in lanes: workers of two pools, or of one. A subclass is a kind of machine.

    The defaults are for workers that build and run programs in their own process, such as
    ``InProcessWorker``. A subclass makes the pools.

    Attributes
    ----------
    builders, runners: the workers that build, and those that run; they may be the same pool.
    build_lanes, run_lanes: number of programs that are built, and that run, at the same time.
    most_waiting: while this many that are built wait to run, no others are built.
    overlap: whether programs are built while others run.
    in_lane: whether a program stays in the worker that built it, and runs there.
    scratch: where built programs go; None where they stay in workers.
    requests: makes the requests of the present workload.
    run: makes the request that runs a program; called when it is about to run.
    """

    overlap: bool = True
    in_lane: bool = False
    run_lanes: int = 1
    build_lanes: int
    most_waiting: int
    builders: WorkerPool
    runners: WorkerPool
    scratch: ScratchFolder | None = None
    requests: Requests
    run: Callable[[Work], Request]

    # -- binding ---------------------------------------------------------------------------------

    @abstractmethod
    def set_up(self) -> dict[str, Any]:
        """Return the settings of a new worker, for its ``start``."""

    def size_for(self, workload: Workload) -> int:
        """Return how many runners there may be; WorkloadError where there is no room for one."""
        return self.runners.size

    def rebind(self, start: Request, bind: Request) -> None:
        """Point workers to another workload: a new one by ``start``, a running one by ``bind``."""
        self.runners.rebind(start, bind)

    def learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        """Do what ``Learn`` in ``worker.preparation`` says; None at ``until``."""
        return self.runners.ask_first(
            Request({"request": "learn"}, tuple(programs), seconds), until
        )

    def compare_given(self, until: float, part: Sequence[bytes]) -> Reply | None:
        """Compare the unscheduled program with the binding's results; None at ``until``.

        Where ``part`` has a part of the program, that is compared. The reply's ``mismatch`` is
        None where nothing differs.
        """
        request = Request({"request": "compare_given"}, tuple(part), START_TIMEOUT)
        return self.runners.ask_first(request, until)

    # -- stages ----------------------------------------------------------------------------------

    def build(self, work: Work, program: bytes, *, discard: bool) -> Request:
        """Return the request that builds a program; ``discard`` empties the lane first."""
        return self.requests.build_of(work, program, discard=discard)

    def start(self, slot: Slot, work: Work) -> Request:
        """Return the first step of running a program in an idle lane."""
        return self.run(work)

    def advance(
        self, slot: Slot, work: Work, step: str, reply: Reply, ready: deque[Work]
    ) -> tuple[Work, Next]:
        """Take in the reply to a step; return what follows, and of which program.

        To wait again, the program goes back to ``ready``. A program whose worker another one may
        have damaged is not asked about here: it runs again in a fresh one.
        """
        return work, self.requests.ran(work, reply)

    # -- the end ---------------------------------------------------------------------------------

    def forget(self, works: Collection[Work]) -> None:
        """Remove what programs were built into, also by builds that were stopped."""
        if self.scratch is None or not self.scratch.path.is_dir():
            return  # a closed measurer has none
        names = {work.name for work in works}
        for path in self.scratch.path.iterdir():
            if path.name.partition(".")[0] in names:
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """Kill all workers, and remove their files; safe to call twice."""
        for pool in (self.builders, self.runners):
            pool.close()
        if self.scratch is not None:
            self.scratch.close()


# -- How much memory measuring a workload takes ---------------------------------------------------

# Python, TVM, LLVM and the code of candidates.
_WORKER_BYTES = 512 << 20
MEMORY_PART = 0.8
"""Part of the free memory that all workers together may use."""
_LEAST_BYTES = 2 << 30
# Random numbers are drawn as float64, one tensor after the other.
_DRAWN_BYTES = 8
# While results are compared: two copies, and three arrays of float64.
_COMPARED_BYTES = 24


def worker_bytes(workload: Workload) -> int:
    """Estimate the bytes that a worker needs to run and verify programs of a workload."""
    sizes = {arg: argument_bytes(arg.shape, arg.dtype) for arg in workload.args}
    elements = {arg: math.prod(arg.shape) for arg in workload.args}
    # Each tensor has its memory and, for each draw, a copy of its initial values or of the right
    # results; what is written has memory for a first call, and copies of two kinds of poison.
    draws = draw_count(workload)
    if branches_of(workload.mod):
        draws += further_draws(workload.args, count_steps(workload.mod))
    kept = (1 + draws) * sum(sizes.values()) + 3 * sum(
        size for arg, size in sizes.items() if arg.role != "input"
    )
    kept += sum(intermediate_sizes(workload.func))
    # Weights are packed into memory of their own, which is poisoned first.
    packed = weight_positions(workload.func)
    kept += 2 * sum(sizes[workload.args[position]] for position in packed)
    read = [elements[arg] for arg in workload.args if arg.role != "output"]
    drawn = _DRAWN_BYTES * max(read, default=0)
    compared = max(
        _COMPARED_BYTES * elements[arg] + 2 * sizes[arg]
        for arg in workload.args
        if arg.role != "input"
    )
    return _WORKER_BYTES + kept + max(drawn, compared)


def fitting_workers(workload: Workload, wanted: int, free: int | None) -> int:
    """Return how many of the ``wanted`` workers have room for the tensors of a workload.

    ``free`` is the memory in bytes; None where it is unknown. Raises WorkloadError where one worker
    has no room.
    """
    if free is None:
        return wanted
    needed = worker_bytes(workload)
    if needed - _WORKER_BYTES > MEMORY_PART * free:
        raise WorkloadError(_describe(workload, needed, free))
    return max(min(wanted, int(MEMORY_PART * free / (needed - _WORKER_BYTES))), 1)


def share_of_memory(workers: int) -> int | None:
    """Return the bytes that each of some workers may use; None where the free memory is unknown."""
    free = host.available_memory()
    return None if free is None else max(int(MEMORY_PART * free / workers), _LEAST_BYTES)


def _describe(workload: Workload, needed: int, free: int) -> str:
    parts = ", ".join(
        f"{arg.name} {_gigabytes(argument_bytes(arg.shape, arg.dtype))}" for arg in workload.args
    )
    inner = sum(intermediate_sizes(workload.func))
    parts += f", intermediate results {_gigabytes(inner)}" if inner else ""
    return (
        f"{workload.name} is too large for this machine: a worker needs about "
        f"{_gigabytes(needed)} to run and verify it, and {_gigabytes(free)} are free (one copy of "
        f"its tensors: {parts}); tune a smaller workload"
    )


def argument_bytes(shape: tuple[int, ...], dtype: str) -> int:
    """Return the bytes of a tensor."""
    return math.prod(shape) * np.dtype(dtype).itemsize


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
