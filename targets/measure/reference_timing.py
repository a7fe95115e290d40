"""Time the unscheduled program."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import asdict, replace
from typing import NamedTuple

from schedlang.errors import TargetError, WorkloadError
from schedlang.targets.measure.expected.large import LargePolicy
from schedlang.targets.measure.timing import REFERENCE_TIMING, TimingPolicy
from schedlang.targets.worker.pool import WorkerPool
from schedlang.targets.worker.request import START_TIMEOUT, Reply, Request

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
