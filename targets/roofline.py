"""What a machine and a workload say of latencies before anything is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import ml_dtypes  # noqa: F401  (registers bfloat16 and the float8 types with numpy)
import numpy as np

from schedlang.targets.target import Target
from schedlang.workloads.workload import Workload

# Allows for what the target's peak leaves out (units beside those for multiply-adds, matrix units)
# and for work of the unscheduled program that a schedule avoids (products with padding).
_SAFETY = 4.0


@dataclass(frozen=True)
class RooflineBound:
    """The shortest time that a machine allows for a workload (Williams et al., Roofline, 2009).

    Attributes
    ----------
    seconds: of a call; 0 where neither rate is known.
    limit: what takes that long.
    """

    seconds: float
    limit: Literal["arithmetic", "memory"]

    def share(self, latency: float) -> float:
        """Return how much of the roofline a program reaches that takes ``latency`` seconds."""
        return self.seconds / latency


def roofline_of(
    workload: Workload,
    target: Target,
    *,
    flops_per_second: float | None = None,
    bytes_per_second: float | None = None,
) -> RooflineBound:
    """Return the longer of two times: that of the operations, and that of the arguments.

    Parameters
    ----------
    flops_per_second: the machine's peak, for the type of the workload's operands; ``None``
        takes the target's, an upper bound.
    bytes_per_second: rate at which each argument passes once; ``None`` takes that of the target's
        memory, if it is known and the arguments do not fit into the target's cache.
    """
    compute = workload.flops / (flops_per_second or peak_of(workload, target))
    moved = bytes_of(workload)
    rate = bytes_per_second or _memory_rate(target, moved)
    memory = moved / rate
    if memory > compute:
        return RooflineBound(memory, "memory")
    return RooflineBound(compute, "arithmetic")


def _memory_rate(target: Target, moved: int) -> float:
    """Return the bytes per second of the memory that ``moved`` bytes come from."""
    cached = moved <= getattr(target, "l2_bytes", math.inf)
    return math.inf if cached else target.memory_bytes_per_second


def shortest_time(workload: Workload, target: Target) -> float:
    """Return the seconds below which a latency of ``workload`` is not believed.

    Below it, the program did not do its work, or the clock is wrong.
    That is the time for its arithmetic at four times the target's peak for its operands' type.
    Data movement does not count: it may all happen in caches. A program that only moves data has
    the bound 0.
    """
    return workload.flops / (_SAFETY * peak_of(workload, target))


def peak_of(workload: Workload, target: Target) -> float:
    """Return the target's peak in operations a second, for ``workload.operand_bits``.

    Where that is unknown, it is that for the narrowest argument.
    """
    narrowest = min(8 * np.dtype(arg.dtype).itemsize for arg in workload.args)
    return target.peak_flops_of(workload.operand_bits or narrowest)


def bytes_of(workload: Workload) -> int:
    """Return the number of bytes of the workload's arguments, each counted once."""
    return sum(np.dtype(arg.dtype).itemsize * math.prod(arg.shape) for arg in workload.args)
