"""A lower bound on latencies: below it, the program did not do its work or the clock is wrong."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.target import Target
from schedlang.workloads.workload import Workload

# Allows for what the target's peak leaves out (units beside those for multiply-adds, matrix units)
# and for work of the unscheduled program that a schedule avoids (products with padding).
_SAFETY = 4.0


def shortest_time(workload: Workload, target: Target) -> float:
    """Return the seconds below which a latency of ``workload`` is not believed.

    That is the time for its arithmetic at four times the target's peak for its narrowest elements.
    Data movement does not count: it may all happen in caches. A program that only moves data has
    the bound 0.
    """
    bits = min(8 * np.dtype(arg.dtype).itemsize for arg in workload.args)
    return workload.flops / (_SAFETY * target.peak_flops_of(bits))
