"""The distributions of the sampling instructions, and the values of their decisions.

Each takes the TVM schedule and the values of the instruction's arguments.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from schedlang.distributions import (
    Categorical,
    ComputeLocation,
    Distribution,
    ImperfectTile,
    IntRange,
    PartitionedTile,
    PerfectTile,
    Permutation,
    Subset,
)
from schedlang.distributions.categorical import INLINE, ROOT
from schedlang.instructions.arguments.numbers import level_weights
from schedlang.instructions.instruction import Result
from schedlang.tvm import analysis
from schedlang.tvm.schedule import TVMSchedule, get_consumers, get_loops, loop_extent
from schedlang.tvm.schedule.primitives import AT_ROOT, INLINED


def given(sch: TVMSchedule, distribution: Distribution) -> Distribution:
    return distribution


# Making a distribution checks and normalises its parameters; a search replays the same ones often.
_make_categorical = lru_cache(maxsize=1024)(Categorical)


@lru_cache(maxsize=4096)
def _make_perfect_tile(extent: int, n: int, bound: int | None, weights: Any) -> PerfectTile:
    return PerfectTile(extent, n, bound, level_weights(weights))


@lru_cache(maxsize=4096)
def _make_partitioned_tile(
    extent: int, n: int, partition_pos: int, innerpart_factor: int, weights: Any
) -> PartitionedTile:
    return PartitionedTile(extent, n, partition_pos, innerpart_factor, level_weights(weights))


@lru_cache(maxsize=4096)
def _make_imperfect_tile(
    extent: int, n: int, bound: int | None, max_waste: float, weights: Any, waste_penalty: int
) -> ImperfectTile:
    return ImperfectTile(extent, n, bound, max_waste, level_weights(weights), waste_penalty)


def categorical(sch: TVMSchedule, candidates: Any, probs: Any) -> Categorical:
    return _make_categorical(candidates, probs)


def perfect_tile(
    sch: TVMSchedule, loop: Any, n: int, max_innermost_factor: int | None, weights: Any
) -> PerfectTile:
    return _make_perfect_tile(loop_extent(sch, loop), n, max_innermost_factor, weights)


def partitioned_tile(
    sch: TVMSchedule, loop: Any, n: int, partition_pos: int, innerpart_factor: int, weights: Any
) -> PartitionedTile:
    extent = loop_extent(sch, loop)
    return _make_partitioned_tile(extent, n, partition_pos, innerpart_factor, weights)


def imperfect_tile(
    sch: TVMSchedule,
    loop: Any,
    n: int,
    max_innermost_factor: int | None,
    max_waste: float,
    weights: Any,
    waste_penalty: int,
) -> ImperfectTile:
    extent = loop_extent(sch, loop)
    return _make_imperfect_tile(extent, n, max_innermost_factor, max_waste, weights, waste_penalty)


def compute_location(sch: TVMSchedule, block: Any, decay: float) -> ComputeLocation:
    locations = analysis.compute_locations(sch, block)
    if not 0 < decay <= 1:
        raise ValueError(f"decay={decay}: give more than 0 and at most 1")
    if decay == 1:
        return ComputeLocation(locations)
    outermost = sum(1 for location in locations if location < 0)
    weights = tuple(decay ** max(0, k - outermost) for k in range(len(locations)))
    return ComputeLocation(locations, weights)


def place(
    sch: TVMSchedule, distribution: Distribution, decision: Any, block: Any, decay: float
) -> Result:
    if decision == INLINE:
        return Result([INLINED], "l", True)
    if decision == ROOT:
        return Result([AT_ROOT], "l", True)
    consumer = get_consumers(sch, block)[0]
    return Result([get_loops(sch, consumer)[decision]], "l", True)


def loop_order(sch: TVMSchedule, loops: Any) -> Permutation:
    return Permutation(len(loops))


def ordered(sch: TVMSchedule, distribution: Distribution, decision: Any, loops: Any) -> Result:
    return Result([loops[k] for k in decision], "l" * len(decision), False)


def int_range(sch: TVMSchedule, start: int, stop: int, step: int) -> IntRange:
    return IntRange(start, stop, step)


def subset(sch: TVMSchedule, items: Any, min_size: int, max_size: int | None) -> Subset:
    return Subset(tuple(items), min_size, max_size)
