"""The unscheduled program: its time, and what takes its place where it takes long.

The unscheduled product of two 4096 x 4096 matrices takes minutes. So the right results come from a
schedule, which runs in seconds (``LargePolicy``, ``find_reference``). It is checked first: the
unscheduled program computes a part of the output, cut to windows of its outermost loops, and the
schedule must give the same there. There is one draw of inputs: another would take as long and as
much memory again.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from schedlang.errors import SchedlangError, TargetError, WorkloadError
from schedlang.spaces.space import Space
from schedlang.targets.measure.reference import Reference
from schedlang.targets.measure.timing import REFERENCE_TIMING, TimingPolicy
from schedlang.targets.worker.pool import WorkerPool
from schedlang.targets.worker.protocol import START_TIMEOUT, Reply, Request
from schedlang.tvm.analysis.partial_results import count_steps, window_of
from schedlang.tvm.program import to_json
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


# -- Its time -------------------------------------------------------------------------------------

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
