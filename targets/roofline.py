"""Times that no machine can reach: the program did not do its work, or the clock is wrong."""

from __future__ import annotations

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.target import Target
from schedlang.workloads.workload import Workload

# Of what the target's peak leaves out: units beside those for multiply-adds, matrix units, work
# that the count of the unscheduled program holds and a schedule leaves out (products with padding).
_SAFETY = 4.0


def shortest_time(workload: Workload, target: Target) -> float:
    """Seconds below which a call of ``workload`` is not to be believed.

    Its arithmetic operations at four times the target's peak for its narrowest elements. Data
    movement is left out: it may all happen in caches. A program that only moves data has a bound
    of 0.
    """
    bits = min(8 * np.dtype(arg.dtype).itemsize for arg in workload.args)
    elements = max(32 / bits, 1.0)
    return workload.flops / (_SAFETY * elements * target.peak_flops)
