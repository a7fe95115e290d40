"""What a measurer finds out about a workload before it verifies candidates.

That is where its right results come from, what takes the place of an unscheduled program that takes
long (``LargePolicy``, ``find_reference``), and the time of that program. Also what it tells a user
whose unscheduled program crashes.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import NamedTuple

from schedlang.errors import SchedlangError, TargetError, WorkloadError
from schedlang.measurement import Status
from schedlang.measurement.problem import Problem
from schedlang.spaces.space import Space
from schedlang.targets.errors import describe_signal
from schedlang.targets.measure.binding import Binding
from schedlang.targets.measure.draws import draw_count
from schedlang.targets.measure.problem_values import results_of
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.timing import REFERENCE_TIMING, TimingPolicy
from schedlang.targets.target import Target
from schedlang.targets.worker.executor import argument_bytes
from schedlang.targets.worker.pool import WorkerPool
from schedlang.targets.worker.protocol import START_TIMEOUT, Reply, Request
from schedlang.tvm.analysis.partial_results import count_steps, window_of
from schedlang.tvm.analysis.races import determinism
from schedlang.tvm.program import TensorProgram, to_json
from schedlang.workloads.workload import Workload

_DIVISION = "SIGFPE"
RUN_TIMEOUT = 10.0
"""Seconds that the runs of a candidate may take, where nobody says otherwise."""

# The runs of a candidate of a large workload may take as long as this many calls of the schedule
# that gave the right results.
_FIRST_CALLS = 6
# Most bytes of right results that are found once for all workers, unless they have to be.
_SHARED_BYTES = 64 << 20


class Preparation:
    """Where the right results of a workload come from, and the binding of workers to it.

    The unscheduled program gives the results in each worker, unless it takes long, and results can
    be shared, or the user has a function for them: then they are found once, by ``find``, and
    become part of the binding.

    Parameters
    ----------
    policy: which workloads are large, or take long.
    run_timeout: of the user, in seconds; None for the default.

    Attributes
    ----------
    workload, problem: as given.
    is_large: whether it is large.
    done: ``find`` has nothing left to do.
    binding: for the workers; before it is done, they verify nothing.
    unscheduled_seconds: of a call of the unscheduled program, where it gave the results once, and
        takes too long to be timed again; else None.
    first_call: seconds of its first call, where ``find`` had it run; else NaN.
    run_timeout: seconds that the runs of a candidate may take.
    """

    def __init__(
        self,
        workload: Workload,
        target: Target,
        problem: Problem,
        policy: LargePolicy,
        run_timeout: float | None,
    ) -> None:
        self.is_large = policy.is_large(workload)
        verifies = problem.verify is not False
        draws = 1 if self.is_large else draw_count(workload)
        binding = Binding.of(workload, target, problem, verifies=verifies, draws=draws)
        once = verifies and (self.is_large or problem.reference is not None)
        shared = verifies and not once and policy.is_shared(workload)
        self.done = not (once or (shared and _can_be_shared(binding)))
        self.binding = replace(binding, verifies=verifies and self.done)
        self.unscheduled_seconds: float | None = None
        self.first_call = math.nan
        self.run_timeout = RUN_TIMEOUT if run_timeout is None else run_timeout
        self._given_timeout = run_timeout
        self._given_is_checked = not verifies
        self.workload, self.problem = workload, problem
        self._target, self._policy = target, policy

    def find(self, learn: Learn) -> bool:
        """Find the right results; False where the deadline comes first."""
        found = results_of(
            self.problem,
            self.binding.inputs,
            self.binding.draws,
            judges_first=self.binding.oscillates and not self.is_large,
        )
        if found is None:
            space = self._target.default_space()
            first = find_reference(
                learn, self.workload, space, self._policy, partial(explain_crash, self.binding)
            )
            if first is None:
                return False
            found, unscheduled = first
            if unscheduled:
                self.first_call = found.seconds
                # Longer ones are not timed more than once.
                if self.is_large or found.seconds > REFERENCE_TIMING.budget_seconds:
                    self.unscheduled_seconds = found.seconds
            if self._given_timeout is None and self.is_large:
                self.run_timeout = max(RUN_TIMEOUT, _FIRST_CALLS * found.seconds)
        self.binding = replace(self.binding, verifies=True, reference=found)
        self.done = True
        return True

    def check_given(self, compare: Callable[[Sequence[bytes]], Reply | None]) -> bool:
        """Compare the user's results with what the unscheduled program computes, once.

        False where the deadline comes first. Nothing is compared where the program cannot be run,
        and of a large workload a part that can be computed alone. ``compare`` is as
        ``Executor.compare_given``. Raises ``WorkloadError`` that says what differs.
        """
        if self._given_is_checked or self.problem.reference is None:
            return True
        part: list[bytes] = []
        if self.is_large:
            window = window_of(self.workload.mod, self._policy.window_steps)
            part = [] if window is None else [to_json(window).encode()]
        if part or not self.is_large:
            reply = compare(part)
            if reply is None:
                return False
            if reply.ok and (mismatch := reply.header["mismatch"]) is not None:
                raise WorkloadError(
                    "the unscheduled program does not compute what reference= returns "
                    f"(got is the program's, expected the function's): {mismatch}",
                    "correct the one that is wrong; if both are right, give tolerance=",
                )
        self._given_is_checked = True
        return True


def _can_be_shared(binding: Binding) -> bool:
    """Whether results of a program can be those of all workers.

    They travel there at each binding. A program that may change its process has to run in each; and
    bounds of narrow sums, of programs that are short enough to have them, do not travel.
    """
    written = [arg for arg in binding.args if arg.role != "input"]
    size = sum(argument_bytes(arg.shape, arg.dtype) for arg in written) * binding.draws
    narrow = binding.sums_narrowly and binding.widened is not None
    return size <= _SHARED_BYTES and not narrow and determinism(binding.unscheduled).proven


def explain_crash(binding: Binding, reply: Reply) -> str:
    """Say on what the unscheduled program crashed, why, and what to do.

    ``reply`` is of the worker that was lost with it.
    """
    name = reply.header.get("signal", "")
    out_of_memory = reply.status == Status.OUT_OF_MEMORY
    if not name or out_of_memory:
        return f"the unscheduled program crashed: {reply.header['message']}"
    advice = crash_advice(binding, division=name == _DIVISION)
    what = describe_signal(name)
    return f"the unscheduled program crashed on {_inputs(binding)}: {what}; {advice}"


def crash_advice(binding: Binding, *, division: bool | None = None) -> str:
    """Name the arguments that may be at fault, and the remedy.

    With ``division``, only those that divisors depend on; with False, only those that indices do.
    """
    uses = binding.uses
    parts = []
    if division is not False and uses.divisors:
        parts.append(f"a divisor depends on {_names(binding, uses.divisors)}")
    # An argument whose range is known stays inside, unless the user chose its values.
    suspects = uses.indices if binding.values is not None else uses.indices - set(uses.ranges)
    if division is not True and suspects:
        names = _names(binding, suspects)
        parts.append(f"an argument used as an index may have had values outside its range: {names}")
    given = binding.values is not None
    remedy = "are the inputs valid for it?" if given else "give inputs= that are valid for it"
    return "; ".join([*parts, remedy])


def _inputs(binding: Binding) -> str:
    return "random inputs" if binding.values is None else "the given inputs"


def _names(binding: Binding, positions: Iterable[int]) -> str:
    return ", ".join(
        f"{binding.args[place].name!r} (argument {place})" for place in sorted(positions)
    )


# -- The time of the unscheduled program ----------------------------------------------------------

# A call that takes a larger part of the time that is left is not worth repeating.
_PART = 0.02
# From sending the request to the first call; its time must not count as the program's.
_LEAD_SECONDS = 0.1
# A call that takes a larger part of the time until it is cut off is not repeated.
_CALL_PART = 0.1


class ReferenceTime(NamedTuple):
    """Seconds of the unscheduled program: its latency, or where it was cut off."""

    seconds: float
    complete: bool = True


def time_reference(pool: WorkerPool, deadline: float, first_call: float = math.nan) -> float:
    """Return the median latency of the unscheduled program, in seconds.

    Where ``deadline`` (of ``time.monotonic``) leaves too little time, return the time of its
    ``first_call``, or where that is unknown of one when a worker started, while others started too;
    NaN where none is ready by then. Raises
    ``WorkloadError`` when the program crashes, and ``TargetError`` when it cannot be timed.
    """
    request = Request(
        {"request": "time_reference", "policy": asdict(REFERENCE_TIMING)}, timeout=START_TIMEOUT
    )
    if math.isinf(deadline):
        return _latency(pool, pool.ask(pool.ready(), request))
    # The candidates need all workers anyway, and those that start would disturb the timing.
    if not pool.start_all(deadline):
        return math.nan
    once: float = pool.greeting.get("reference_seconds") or first_call
    if once > _PART * (deadline - time.monotonic()):
        return once
    slot = pool.ready()
    reply = pool.ask_until(slot, request, deadline)
    if reply is None:
        pool.drop(slot)
        return once
    return _latency(pool, reply)


def time_large_reference(pool: WorkerPool, policy: LargePolicy, deadline: float) -> ReferenceTime:
    """Time an unscheduled program that may take minutes; cut it off as ``policy`` says.

    The time is then a lower bound of its latency. NaN where no worker is ready by ``deadline`` (of
    ``time.monotonic``). Raises as ``time_reference`` does.
    """
    unknown = ReferenceTime(math.nan)
    slot = pool.ready_by(deadline)
    if slot is None:
        return unknown
    reply = pool.ask_until(
        slot, Request({"request": "build_reference"}, timeout=START_TIMEOUT), deadline
    )
    seconds = policy.cut_off(deadline)
    if reply is None or seconds <= _LEAD_SECONDS:
        pool.drop(slot)
        return unknown
    if reply.ok:
        header = {"request": "time_reference", "policy": asdict(cut_off_timing(seconds))}
        reply = pool.ask(slot, Request(header, timeout=seconds))
        if reply.timed_out:
            return ReferenceTime(seconds - _LEAD_SECONDS, complete=False)
    return ReferenceTime(_latency(pool, reply))


def cut_off_timing(seconds: float) -> TimingPolicy:
    """Return how to time a program that is cut off after ``seconds``.

    One call is enough where several might not fit: only a first call is cut off, whose time is then
    a lower bound.
    """
    budget = min(REFERENCE_TIMING.budget_seconds, _CALL_PART * seconds)
    return replace(REFERENCE_TIMING, budget_seconds=budget)


def _latency(pool: WorkerPool, reply: Reply) -> float:
    if reply.lost and reply.header.get("signal"):
        raise WorkloadError(pool.explain_crash(reply))
    if not reply.ok:
        raise TargetError(
            f"the unscheduled program cannot be timed: {reply.message(START_TIMEOUT)}"
        )
    samples: list[float] = reply.header["samples"]
    return statistics.median(samples)


# -- Right results from a schedule that was checked -----------------------------------------------
#
# The unscheduled product of two 4096 x 4096 matrices takes minutes. So the right results come from
# a schedule, which runs in seconds. It is checked first: the unscheduled program computes a part of
# the output, cut to windows of its outermost loops, and the schedule must give the same there.
# There is one draw of inputs: another would take as long and as much memory again.


@dataclass(frozen=True, slots=True)
class LargePolicy:
    """When a workload counts as large, and what is done about it.

    Attributes
    ----------
    steps: a workload is large when its unscheduled program takes more steps than this, by
        ``count_steps``; a step takes about a nanosecond.
    shared_steps: where it takes more than this, one worker runs it for all of them, if that can be.
    window_steps: steps of the part of the unscheduled program that a schedule is checked with.
    schedules: number of schedules to try.
    schedule_seconds: how long the first one may take, build and check included; each second one may
        take twice as long.
    cut_off_seconds: the unscheduled program's own timing is cut off after this time.
    cut_off_part: the same, as a part of the time that a deadline leaves.
    """

    steps: float = 2e9
    shared_steps: float = math.inf
    window_steps: float = 1e8
    schedules: int = 6
    schedule_seconds: float = 15.0
    cut_off_seconds: float = 20.0
    cut_off_part: float = 0.1

    def is_large(self, workload: Workload) -> bool:
        """Whether the unscheduled program of ``workload`` takes too long to run it often."""
        return count_steps(workload.mod) > self.steps

    def is_shared(self, workload: Workload) -> bool:
        """Whether one worker should find the right results of ``workload`` for all of them."""
        return count_steps(workload.mod) > self.shared_steps

    def cut_off(self, deadline: float) -> float:
        """Return the seconds after which to cut off the unscheduled program's timing."""
        return min(self.cut_off_seconds, self.cut_off_part * (deadline - time.monotonic()))

    def attempts(self, workload: Workload, space: Space) -> Iterator[tuple[TensorProgram, float]]:
        """Yield schedules to try, and the seconds that each may take."""
        for number in range(self.schedules):
            try:
                schedule = space.sample(workload, seed=number)
            except SchedlangError:
                continue
            yield schedule.mod, self.schedule_seconds * 2 ** (number // 2)


Learn = Callable[[Sequence[bytes], float], Reply | None]
"""Runs a schedule, given as JSON, and checks it with a part of the program; without both, runs the
unscheduled program. The number is the seconds that this may take. The reply holds the results; None
where the deadline came first."""


def find_reference(
    learn: Learn,
    workload: Workload,
    space: Space,
    policy: LargePolicy,
    explain_crash: Callable[[Reply], str],
) -> tuple[Reference, bool] | None:
    """Compute the right results once, in one worker; None where the deadline comes first.

    Also returns whether the unscheduled program gave them; their ``seconds`` are the time of the
    program that did.

    ``space`` gives the schedules to try. Where none of them passes, no part of the output can be
    computed alone, or the workload is not large, the unscheduled program runs. Raises
    ``WorkloadError`` when that fails too, with what ``explain_crash`` says about the worker's last
    reply where it was lost.
    """
    large = policy.is_large(workload)
    window = window_of(workload.mod, policy.window_steps) if large else None
    if window is not None:
        part = to_json(window).encode()
        for schedule, seconds in policy.attempts(workload, space):
            blobs = (to_json(schedule).encode(), part)
            reply = learn(blobs, seconds)
            if reply is None:
                return None
            if reply.ok:
                return _results(reply, workload), False
    reply = learn((), START_TIMEOUT)
    if reply is None:
        return None
    if reply.lost and reply.header.get("signal"):
        raise WorkloadError(explain_crash(reply))
    if not reply.ok:
        raise WorkloadError(
            f"the unscheduled program cannot be the reference: {reply.message(START_TIMEOUT)}; "
            "give tune a function that computes the right results: reference="
        )
    return _results(reply, workload), True


def _results(reply: Reply, workload: Workload) -> Reference:
    return Reference.unpack(reply.header["reference"], reply.blobs, workload.args)
