"""Time the unscheduled program."""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import asdict

from schedlang.errors import TargetError
from schedlang.targets.measure.timing import REFERENCE_TIMING
from schedlang.targets.worker.pool import WorkerPool
from schedlang.targets.worker.request import START_TIMEOUT, Reply, Request

# A call that takes a larger part of the time that is left is not worth repeating.
_PART = 0.02


def time_reference(pool: WorkerPool, deadline: float) -> float:
    """Return the median latency of the unscheduled program, in seconds.

    Where ``deadline`` (of ``time.monotonic``) leaves too little time, return the time of one call
    when a worker started, while others started too; NaN where none is ready by then. Raises
    ``TargetError`` when the program cannot be timed.
    """
    request = Request(
        {"request": "time_reference", "policy": asdict(REFERENCE_TIMING)}, timeout=START_TIMEOUT
    )
    if math.isinf(deadline):
        return _latency(pool.ask(pool.ready(), request))
    # The candidates need all workers anyway, and those that start would disturb the timing.
    if not pool.start_all(deadline):
        return math.nan
    once: float = pool.greeting.get("reference_seconds") or math.nan
    if once > _PART * (deadline - time.monotonic()):
        return once
    slot = pool.ready()
    reply = pool.ask_until(slot, request, deadline)
    if reply is None:
        pool.drop(slot)
        return once
    return _latency(reply)


def _latency(reply: Reply) -> float:
    if not reply.ok:
        raise TargetError(
            f"the unscheduled program cannot be timed: {reply.message(START_TIMEOUT)}"
        )
    samples: list[float] = reply.header["samples"]
    return statistics.median(samples)
