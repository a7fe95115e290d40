"""What measurers have in common that measure in pools of worker processes.

``PooledMeasurer`` is their base. ``measurer()`` is the user's: a measurer whose workers stay
between calls of ``tune``.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any, ClassVar, TypedDict, Unpack

from schedlang.errors import SchedlangError, TargetError
from schedlang.measurement import Candidate, Measurement, Measurer
from schedlang.measurement.contest import BUDGET_SECONDS, ROUNDS
from schedlang.measurement.problem import ComputeReference, GivenTolerance, Inputs, Problem, Verify
from schedlang.once import LastUsed
from schedlang.targets.errors import describe
from schedlang.targets.measure.timing import TimingPolicy
from schedlang.targets.measure.verification import VerifyPolicy
from schedlang.targets.target import Target, as_target
from schedlang.targets.worker.executor import Executor, Requests, Work, binding_requests
from schedlang.targets.worker.interleaved import InterleavedTiming
from schedlang.targets.worker.pool import CLOSED, WorkerPool
from schedlang.targets.worker.preparation import (
    RUN_TIMEOUT,
    LargePolicy,
    Preparation,
    explain_crash,
    time_large_reference,
    time_reference,
)
from schedlang.targets.worker.protocol import Reply, Request
from schedlang.targets.worker.stages import BuildTimeout, Done, Stages
from schedlang.workloads.workload import Workload

# -- The base of measurers ------------------------------------------------------------------------

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
    gives_up: bool


class PooledMeasurer(Measurer):
    """Measures in worker processes, which stay while it goes over to other workloads and problems.

    Parameters
    ----------
    workload: the program before scheduling; candidates must compute what it computes. None where
        ``bind`` gives it.
    target: the machine that programs are built for and run on.
    make_executor: makes what differs between kinds of machine, when the options were checked.
    slow_build: a build is given up when it takes more than this multiple of the median build, see
        ``BuildTimeout``; infinity disables it.
    build_timeout, run_timeout: seconds; ``run_timeout`` limits all runs of a candidate together. It
        is 10 by default, and more for a large workload, see docs/tuning.md.
    verify, seed, inputs, tolerance, reference: as ``tune`` takes them.
    timing: how often to run a candidate.
    gives_up: stop timing a candidate that is surely slower than the best one, and building one that
        surely will be.
    recycle_after: replace a worker after this many requests, which bounds memory leaks.

    Attributes
    ----------
    problem: how candidates are verified.
    seconds: wall time of ``measure``, by activity: ``start`` (waiting for workers), ``build``,
        ``run``.
    """

    _large: LargePolicy = LargePolicy()
    _usual_timing: ClassVar[TimingPolicy] = TimingPolicy()
    _usual_build_timeout: ClassVar[float] = 30.0
    # Number of builders that keep one run lane busy.
    _builders_a_lane: ClassVar[int] = 4

    def __init__(
        self,
        workload: Workload | None,
        target: Target,
        make_executor: Callable[[], Executor],
        slow_build: float = math.inf,
        **options: Unpack[PoolOptions],
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
        if not options.get("gives_up", True):
            timing = replace(timing, slow_factor=math.inf, margin=math.inf)
            slow_build = math.inf
        self._run_timeout = options.get("run_timeout")
        self._build_timeout = BuildTimeout(most, slow_build)
        executor = self._executor = make_executor()
        executor.requests = Requests(timing, most, RUN_TIMEOUT)
        executor.runners.explain_crash = self._explain_crash
        recycle_after = options.get("recycle_after", 2000)
        executor.builders.explain_crash = self._explain_crash
        self._stages = Stages(executor, self._build_timeout, recycle_after, self.seconds)
        self._verify = VerifyPolicy(self.problem.verify)
        self._serials = itertools.count()
        self._preparations: LastUsed[Preparation] = LastUsed(_PREPARATIONS)
        if workload is not None:
            self.bind(workload)

    @property
    def key(self) -> str:
        """Equal for measurers whose latencies compare."""
        return f"verify={self.problem.verify} {self._executor.requests.timing}{self.problem.key}"

    @property
    def parallel(self) -> int:  # type: ignore[override]
        """Number of programs that run at the same time, or that must be built meanwhile."""
        executor = self._executor
        wanted = self._builders_a_lane * executor.run_lanes
        return max(executor.run_lanes, min(executor.build_lanes, wanted))

    @property
    def unreached(self) -> Sequence[str]:
        """Sides of the unscheduled program's branches that no inputs take; known after a start."""
        found: list[str] = self._pool.greeting.get("unreached", [])
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
        if self._pool.closed:
            raise TargetError(CLOSED)
        size = self._executor.size_for(workload)
        preparation = self._preparation_of(workload, problem)
        self._forget(workload)
        self.problem, self._verify = problem, VerifyPolicy(problem.verify)
        self._build_timeout.forget()
        if workload == before and problem.is_like(known):
            self._pool.drop_ended()
            return
        self._preparation = preparation
        if size != self._pool.size:
            self._pool.resize(size)
        # While all of them are there: a share of memory is the same for those that start later.
        self._set_up = self._executor.set_up()
        self._executor.rebind(*self._binding_requests())

    def _preparation_of(self, workload: Workload, problem: Problem) -> Preparation:
        def fits(known: Preparation) -> bool:
            return known.workload == workload and known.problem.is_like(problem)

        def prepare() -> Preparation:
            return Preparation(workload, self.target, problem, self._large, self._run_timeout)

        return self._preparations.get(workload.key, prepare, fits)

    def _binding_requests(self, *, replaces: bool = False) -> tuple[Request, Request]:
        """Return the requests that bind a new and a running worker to the workload."""
        return binding_requests(self._preparation.binding, self._set_up, replaces=replaces)

    def _prepare(self, until: float) -> bool:
        """Find the right results, unless each worker does; False where ``until`` comes first."""
        self._pool.check_usable()
        preparation = self._preparation
        if not preparation.done:
            started = time.perf_counter()
            found = preparation.find(partial(self._executor.learn, until))
            self.seconds["start"] += time.perf_counter() - started
            if not found:
                return False
            self._executor.rebind(*self._binding_requests(replaces=True))
        if not preparation.check_given(partial(self._executor.compare_given, until)):
            return False
        requests = self._executor.requests
        self._executor.requests = replace(requests, run_timeout=preparation.run_timeout)
        return True

    def _explain_crash(self, reply: Reply) -> str:
        return explain_crash(self._preparation.binding, reply)

    @property
    def _pool(self) -> WorkerPool:
        """The workers that run programs."""
        return self._executor.runners

    # -- measuring -------------------------------------------------------------------------------

    def measure(self, candidates: Sequence[Candidate]) -> Iterator[Measurement]:
        """Yield one measurement for each candidate, in the order in which they finish.

        An abandoned iteration leaves none behind. Where builds and runs must not overlap, nothing
        is built or run while the consumer has control.
        """
        works = [Work(candidate, next(self._serials)) for candidate in candidates]
        try:
            if not works or not self._prepare(self.deadline):
                return
            for work, reply in self._drive(works, self._run_request, self.deadline):
                self._executor.forget([work])
                measurement = work.measurement(reply)
                if measurement.ok:
                    self._verify.measured += 1
                    self._note_best(measurement)
                yield measurement
        finally:
            self._executor.forget(works)

    def remeasure(
        self,
        candidates: Sequence[Candidate],
        rounds: int = ROUNDS,
        budget_seconds: float = BUDGET_SECONDS,
    ) -> list[Measurement]:
        """Time a few candidates against each other, with one sample of each per round.

        Returns one measurement per candidate, in the same order. Successful ones all have the same
        number of samples: ``rounds``, up to four times that while the medians of the two fastest
        are too uncertain, or the rounds done in ``budget_seconds``, or by ``deadline``: with fewer
        than two the list is empty. Their results are verified again unless ``verify`` is False.
        Raises ValueError when ``rounds`` is below 1.
        """
        until = self.deadline
        if not self._prepare(until):
            return []
        works = [Work(candidate, next(self._serials)) for candidate in candidates]
        executor, failed = self._executor, dict[int, Measurement]()
        try:
            if not executor.in_lane:
                # Built elsewhere, all at once.
                for work, reply in self._stages.drive(deque(works), deque(), None, until):
                    failed[work.serial] = work.measurement(reply)
            left = [work for work in works if work.serial not in failed]
            if not executor.in_lane and not all(work.built for work in left):
                return []  # time was up
            timing = InterleavedTiming(
                executor.runners, executor.requests, self._verify.enabled, until
            )
            found = timing.measure(left, rounds, budget_seconds)
            if left and not found:
                return []
            timed = iter(found)
            return [failed.get(work.serial) or next(timed) for work in works]
        finally:
            self._stages.abandon()
            executor.forget(works)

    def _drive(
        self, works: Sequence[Work], run: Callable[[Work], Request], until: float = math.inf
    ) -> Iterator[Done]:
        """Build those that are not built, and run them all, see ``Stages.drive``."""
        queue = deque(work for work in works if not work.built)
        ready = deque(work for work in works if work.built)
        return self._stages.drive(queue, ready, run, until)

    def _run_request(self, work: Work) -> Request:
        return self._executor.requests.run(work, self.best_so_far, self._verify.factor)

    def _time_reference(self) -> float:
        """Time the unscheduled program; a single call of it where the deadline is near.

        That of a large workload is cut off after a while.
        """
        if not self._prepare(self.deadline):
            return math.nan
        if (known := self._preparation.unscheduled_seconds) is not None:
            return known
        if not self._preparation.is_large:
            return time_reference(self._pool, self.deadline, self._preparation.first_call)
        found = time_large_reference(self._pool, self._large, self.deadline)
        self.reference_complete = found.complete
        return found.seconds

    def _run_reference(
        self, work: Work, run: Callable[[Work], Request], timing: TimingPolicy, seconds: float
    ) -> Reply | None:
        """Run the unscheduled program as candidates are run; None where the deadline comes first.

        ``timing`` says how often, and ``seconds`` how long that may take.
        """
        usual = self._executor.requests
        self._executor.requests = replace(usual, timing=timing, run_timeout=seconds)
        try:
            for _, reply in self._drive([work], run, self.deadline):
                return reply
        finally:
            self._executor.requests = usual
            self._executor.forget([work])
        return None

    def close(self) -> None:
        """Kill all workers, and remove their files; safe to call twice."""
        self._executor.close()


# -- Workers that stay between calls --------------------------------------------------------------

_SAID_BY_CALLS = frozenset(field.name for field in fields(Problem))


def measurer(target: Target | str | Any = "cpu", **options: Any) -> Measurer:
    """Return a measurer of this machine whose workers stay between calls; the caller closes it.

    ``with sl.measurer("cpu") as m: sl.tune(a, measurer=m); sl.tune(b, measurer=m)`` starts workers
    once, which is most of the time of a small run. Each call verifies as it would without the
    measurer, and is the same run: an interrupted one continues with it or without. One call uses it
    at a time, for this target.

    Parameters
    ----------
    target: a Target, its name, or one of TVM's.
    options: of the target's measurer: how many workers there are, how long builds and runs may
        take, how often candidates run (``schedlang.targets.LocalCPU`` has those of a CPU).

    Raises TargetError for a target that this machine is not, and where measurers of the kind do not
    stay or need a workload; TypeError for an option that it does not have, or that each call says
    itself.
    """
    machine = as_target(target)
    machine.check_present()
    if said := sorted(options.keys() & _SAID_BY_CALLS):
        raise TypeError(f"measurer: {said[0]}= is said by each call: tune(..., {said[0]}=...)")
    try:
        made = machine.measurer(None, **options)
    except SchedlangError:
        raise
    except Exception as error:
        if options and isinstance(error, (TypeError, ValueError)):
            raise  # of an option
        raise TargetError(
            f"{machine.kind!r} has no measurer without a workload ({describe(error)}), whose "
            "workers could stay between calls: the target's method `measurer` must accept "
            "None for it, and return a schedlang.targets.PooledMeasurer"
        ) from error
    if not isinstance(made, PooledMeasurer):
        made.close()
        raise TargetError(
            f"{type(made).__name__}, which measures on {machine.kind!r}, takes no problem from a "
            "call; its class must derive from schedlang.targets.PooledMeasurer"
        )
    made.keep(machine.key)
    return made
