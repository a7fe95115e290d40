"""What measurers have in common that measure in pools of worker processes."""

from __future__ import annotations

import itertools
import math
import time
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypedDict, Unpack

from schedlang.errors import TargetError
from schedlang.measurement import Measurement, Measurer
from schedlang.measurement.problem import ComputeReference, Inputs, Problem, Verify
from schedlang.measurement.tolerance import GivenTolerance
from schedlang.targets.measure.crash import explain_crash
from schedlang.targets.measure.expected.large import LargePolicy
from schedlang.targets.measure.expected.preparation import RUN_TIMEOUT, Preparation
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.measure.verification.policy import VerifyPolicy
from schedlang.targets.measure.work import Requests, binding_requests
from schedlang.targets.target import Target
from schedlang.targets.worker.build_timeout import BuildTimeout
from schedlang.targets.worker.pool import CLOSED, WorkerPool
from schedlang.targets.worker.request import Reply, Request
from schedlang.workloads.workload import Workload

# Workloads whose right results are kept for when it is bound to them again.
_PREPARATIONS = 64


class PoolOptions(TypedDict, total=False):
    """Options that all pooled measurers take, see ``PooledMeasurer``."""

    build_timeout: float
    run_timeout: float | None
    verify: Verify
    timing: TimingPolicy | None
    seed: int
    inputs: Inputs | None
    tolerance: GivenTolerance | None
    reference: ComputeReference | None
    recycle_after: int


class PooledMeasurer(Measurer):
    """Measures in worker processes, which stay while it goes over to other workloads and problems.

    Parameters
    ----------
    workload: the program before scheduling; candidates must compute what it computes. None where
        ``bind`` gives it.
    target: the machine that programs are built for and run on.
    slow_build: a build is given up when it takes more than this multiple of the median build, see
        ``BuildTimeout``; infinity disables it.
    build_timeout, run_timeout: seconds; ``run_timeout`` limits all runs of a candidate together. It
        is 10 by default, and more for a large workload, see docs/tuning.md.
    verify, seed, inputs, tolerance, reference: as ``tune`` takes them.
    timing: how often to run a candidate.
    recycle_after: replace a worker after this many requests, which bounds memory leaks.

    Attributes
    ----------
    problem: how candidates are verified.
    seconds: wall time of ``measure``, by activity: ``start`` (waiting for workers), ``build``,
        ``run``.
    """

    _large: LargePolicy = LargePolicy()
    _usual_timing: ClassVar[TimingPolicy] = TimingPolicy()
    _make_requests: ClassVar[type[Requests]] = Requests
    _usual_build_timeout: ClassVar[float] = 30.0

    def __init__(
        self, target: Target, slow_build: float = math.inf, **options: Unpack[PoolOptions]
    ) -> None:
        known = sorted(PoolOptions.__annotations__)
        if unknown := [name for name in options if name not in known]:
            raise TypeError(
                f"{type(self).__name__} takes no option {unknown[0]!r}; those of all that have "
                f"workers are {', '.join(known)}"
            )
        names = ("inputs", "tolerance", "reference", "verify", "seed")
        given: dict[str, Any] = {name: options.get(name) for name in names if name in options}
        self.problem = Problem(**given)
        self.target = target
        self.seconds: dict[str, float] = {"start": 0.0, "build": 0.0, "run": 0.0}
        most = options.get("build_timeout", self._usual_build_timeout)
        timing = options.get("timing") or self._usual_timing
        self._run_timeout = options.get("run_timeout")
        self._requests = self._make_requests(timing, most, RUN_TIMEOUT)
        self._build_timeout = BuildTimeout(most, slow_build)
        self._recycle_after = options.get("recycle_after", 2000)
        self._verify = VerifyPolicy(self.problem.verify)
        self._serials = itertools.count()
        self._preparations: OrderedDict[str, Preparation] = OrderedDict()

    @property
    def key(self) -> str:
        """Equal for measurers whose latencies compare."""
        return f"verify={self.problem.verify} {self._requests.timing}{self.problem.key}"

    @property
    def unreached(self) -> Sequence[str]:
        """Sides of the unscheduled program's branches that no inputs take; known after a start."""
        found: list[str] = self._main_pool.greeting.get("unreached", [])
        return found

    def bind(self, workload: Workload, problem: Problem | None = None) -> None:
        """Measure candidates of ``workload`` from now on, in the workers that run already.

        ``problem`` says how to verify them; None leaves that as it is. With another problem than
        before, what was found out about the workload counts no more.
        """
        before, known = getattr(self, "workload", None), self.problem
        problem = known if problem is None else problem
        if workload == before and problem is known:
            return
        if self._main_pool.closed:
            raise TargetError(CLOSED)
        size = self._size_for(workload)
        preparation = self._preparation_of(workload, problem)
        self._forget(workload)
        self.problem, self._verify = problem, VerifyPolicy(problem.verify)
        self._build_timeout.forget()
        if workload == before and problem.is_like(known):
            self._main_pool.drop_ended()
            return
        self._preparation = preparation
        if size != self._main_pool.size:
            self._main_pool.resize(size)
        self._rebind(*self._binding_requests())

    def _preparation_of(self, workload: Workload, problem: Problem) -> Preparation:
        known = self._preparations.pop(workload.key, None)
        if known is None or known.workload != workload or not known.problem.is_like(problem):
            known = Preparation(workload, self.target, problem, self._large, self._run_timeout)
        self._preparations[workload.key] = known
        if len(self._preparations) > _PREPARATIONS:
            self._preparations.popitem(last=False)
        return known

    def _binding_requests(self) -> tuple[Request, Request]:
        """Return the requests that bind a new and a running worker to the workload."""
        return binding_requests(self._preparation.binding, self._set_up())

    def _prepare(self, until: float) -> bool:
        """Find the right results, unless each worker does; False where ``until`` comes first."""
        self._main_pool.check_usable()
        preparation = self._preparation
        if not preparation.done:
            started = time.perf_counter()
            found = preparation.find(partial(self._learn, until))
            self.seconds["start"] += time.perf_counter() - started
            if not found:
                return False
            self._rebind(*self._binding_requests())
        self._requests = replace(self._requests, run_timeout=preparation.run_timeout)
        return True

    def _explain_crash(self, reply: Reply) -> str:
        return explain_crash(self._preparation.binding, reply)

    def _count(self, measurement: Measurement) -> Measurement:
        """Take a measurement into account, and return it."""
        if measurement.ok:
            self._verify.measured += 1
            self._note_best(measurement)
        return measurement

    # -- what a kind of machine gives -------------------------------------------------------------

    @property
    @abstractmethod
    def _main_pool(self) -> WorkerPool:
        """The workers that are bound to the workload."""

    def _size_for(self, workload: Workload) -> int:
        """Return how many of them there may be; WorkloadError where there is no room for one."""
        return self._main_pool.size

    @abstractmethod
    def _set_up(self) -> dict[str, Any]:
        """Return the settings of a new worker."""

    def _rebind(self, start: Request, bind: Request) -> None:
        """Point all workers to the workload: a new one by ``start``, a running one by ``bind``."""
        self._main_pool.rebind(start, bind)

    @abstractmethod
    def _learn(self, until: float, programs: Sequence[bytes], seconds: float) -> Reply | None:
        """Do what ``Learn`` in ``measure.expected.large`` says; None at ``until``."""
