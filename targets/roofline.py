"""What a machine and a workload say of latencies before anything is measured."""

from __future__ import annotations

import math

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.target import Target
from schedlang.workloads.workload import Workload

# Allows for what the target's peak leaves out (units beside those for multiply-adds, matrix units)
# and for work of the unscheduled program that a schedule avoids (products with padding).
_SAFETY = 4.0


def shortest_time(workload: Workload, target: Target) -> float:
    """Return the seconds below which a latency of ``workload`` is not believed.

    Below it, the program did not do its work, or the clock is wrong.
    That is the time for its arithmetic at four times the target's peak for its narrowest elements.
    Data movement does not count: it may all happen in caches. A program that only moves data has
    the bound 0.
    """
    return workload.flops / (_SAFETY * peak_of(workload, target))


def peak_of(workload: Workload, target: Target) -> float:
    """Return the target's peak in operations a second, for the workload's narrowest elements."""
    return target.peak_flops_of(min(8 * np.dtype(arg.dtype).itemsize for arg in workload.args))


def bytes_of(workload: Workload) -> int:
    """Return the number of bytes of the workload's arguments, each counted once."""
    return sum(np.dtype(arg.dtype).itemsize * math.prod(arg.shape) for arg in workload.args)
