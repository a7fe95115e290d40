"""What differs between kinds of machine: where programs are built and run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from schedlang.targets.pooled.work import Requests, Work
from schedlang.targets.worker.pool import Slot, WorkerPool
from schedlang.targets.worker.protocol import START_TIMEOUT, Reply, Request
from schedlang.targets.worker.scratch import ScratchFolder
from schedlang.workloads.workload import Workload

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
        """Do what ``Learn`` in ``pooled.unscheduled`` says; None at ``until``."""
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
