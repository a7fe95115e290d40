"""Draws as TVM's own sampling instructions, where it has them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tvm.s_tir.schedule import _ffi_api as _ffi
from tvm.tirx import FloatImm

from schedlang.distributions import Categorical, ComputeLocation, PartitionedTile, PerfectTile
from schedlang.tvm.analysis import INLINE, ROOT
from schedlang.tvm.schedule.ffi import copy_schedule, get_consumers, get_loops
from schedlang.tvm.schedule.primitives import AT_ROOT, INLINED

if TYPE_CHECKING:
    from schedlang.instructions.instruction import Instruction

# TVM checks int32 in its tile sampling; -1 is its word for no bound on the innermost factor.
_UNBOUNDED = -1


def draw(sch: Any, instruction: Instruction, values: list[Any]) -> list[Any] | None:
    """Record the draw in a traced TVM schedule; its random variables, or None if TVM has no
    such draw.
    """
    distribution, decision = instruction.distribution, instruction.decision
    name = instruction.kind.name
    if name == "sample_perfect_tile" and isinstance(distribution, PerfectTile):
        if distribution.n < 2:
            return None
        bound = distribution.max_innermost_factor or _UNBOUNDED
        loop = values[instruction.args[0].index]
        return list(
            _ffi.ScheduleSamplePerfectTile(sch, loop, distribution.n, bound, list(decision))
        )
    if name == "sample_partitioned_tile" and isinstance(distribution, PartitionedTile):
        if distribution.n < 2:
            return None
        loop = values[instruction.args[0].index]
        return list(
            _ffi.ScheduleSamplePartitionedTile(
                sch,
                loop,
                distribution.n,
                distribution.partition_pos,
                distribution.innerpart_factor,
                list(decision),
            )
        )
    if name == "sample_categorical" and isinstance(distribution, Categorical):
        candidates = list(distribution.candidates)
        probs = [_probability(distribution, c) for c in candidates]
        index = candidates.index(decision)
        return [_ffi.ScheduleSampleCategorical(sch, candidates, probs, index)]
    if name == "sample_compute_location" and isinstance(distribution, ComputeLocation):
        if decision == INLINE:
            return [INLINED]
        if decision == ROOT:
            return [AT_ROOT]
        block = values[instruction.args[0].index]
        if not _same_location(copy_schedule(sch), block, decision):
            return None
        return [_ffi.ScheduleSampleComputeLocation(sch, block, decision)]
    return None


def _same_location(sch: Any, block: Any, decision: int) -> bool:
    """Whether TVM, which moves a decision that it would not sample, takes this one as it is."""
    loop = _ffi.ScheduleSampleComputeLocation(sch, block, decision)
    wanted = get_loops(sch, get_consumers(sch, block)[0])[decision]
    return bool(_ffi.ScheduleGetSRef(sch, loop).same_as(_ffi.ScheduleGetSRef(sch, wanted)))


def _probability(distribution: Categorical, candidate: int) -> Any:
    return FloatImm("float32", math.exp(distribution.log_prob(candidate)))
