"""Workloads whose unscheduled program takes long: right results from a schedule that was checked.

The unscheduled product of two 4096 x 4096 matrices takes minutes. So the right results come from a
schedule, which runs in seconds. It is checked first: the unscheduled program computes a part of the
output, cut to windows of its outermost loops, and the schedule must give the same there. There is
one draw of inputs: another would take as long and as much memory again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedlang.errors import SchedlangError, WorkloadError
from schedlang.spaces.space import Space
from schedlang.targets.measure.expected.reference import Reference
from schedlang.targets.worker.request import START_TIMEOUT, Reply
from schedlang.tvm.analysis.window import count_steps, window_of
from schedlang.tvm.program import to_json
from schedlang.workloads.workload import Workload

if TYPE_CHECKING:
    from schedlang.tvm.program import TensorProgram


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
