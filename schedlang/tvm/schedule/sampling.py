"""TVM's own sampling instructions, in a schedule that records a TVM trace.

Each function takes the schedule, the distribution, the decision and the argument values of our
instruction. It returns TVM's random variables, or ``None`` if TVM cannot sample the decision.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tvm.s_tir.schedule import _ffi_api as _ffi
from tvm.tirx import FloatImm

from schedlang.distributions import Categorical, ComputeLocation, PartitionedTile, PerfectTile
from schedlang.tvm.schedule.ffi import TVMSchedule, get_trace

# TVM's tile sampling takes an int32; -1 means that the innermost factor is unbounded.
_UNBOUNDED = -1


def perfect_tile(
    sch: TVMSchedule, distribution: PerfectTile, decision: Sequence[int], loop: Any, *rest: Any
) -> list[Any] | None:
    """Sample a perfect tile; None for a single factor, as TVM requires at least two."""
    n, bound = distribution.n, distribution.max_innermost_factor or _UNBOUNDED
    if n < 2:
        return None
    return list(_ffi.ScheduleSamplePerfectTile(sch, loop, n, bound, list(decision)))


def partitioned_tile(
    sch: TVMSchedule, distribution: PartitionedTile, decision: Sequence[int], loop: Any, *rest: Any
) -> list[Any] | None:
    """Sample a partitioned tile; None for a single factor, as TVM requires at least two."""
    n, position = distribution.n, distribution.partition_pos
    if n < 2:
        return None
    return list(
        _ffi.ScheduleSamplePartitionedTile(
            sch, loop, n, position, distribution.innerpart_factor, list(decision)
        )
    )


def categorical(
    sch: TVMSchedule, distribution: Categorical, decision: int, *rest: Any
) -> list[Any]:
    """Sample one of the candidate integers."""
    candidates = list(distribution.candidates)
    probs = [FloatImm("float32", math.exp(distribution.log_prob(c))) for c in candidates]
    index = candidates.index(decision)
    return [_ffi.ScheduleSampleCategorical(sch, candidates, probs, index)]


def compute_location(
    sch: TVMSchedule, distribution: ComputeLocation, decision: int, block: Any, *rest: Any
) -> list[Any] | None:
    """Sample a compute location; None if TVM would replace the decision by another one."""
    location = _ffi.ScheduleSampleComputeLocation(sch, block, decision)
    trace = get_trace(sch)
    sampled = trace.insts[-1]
    if int(trace.get_decision(sampled)) == decision:
        return [location]
    trace.pop()
    return None
