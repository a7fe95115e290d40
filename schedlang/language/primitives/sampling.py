"""Drawing random variables, and choosing between structures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

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
from schedlang.expressions import IntRV
from schedlang.instructions.arguments import Block, DistributionValue, LevelWeights, Loop
from schedlang.instructions.handles import LoopRV
from schedlang.instructions.instruction import Result
from schedlang.instructions.kinds import choice, sampling
from schedlang.language.primitives.group import InstructionGroup
from schedlang.tvm import analysis
from schedlang.tvm.schedule import TVMSchedule, get_consumers, get_loops, loop_extent
from schedlang.tvm.schedule.primitives import AT_ROOT, INLINED

T = TypeVar("T")


def _given(sch: TVMSchedule, distribution: Distribution) -> Distribution:
    return distribution


# Making a distribution checks and normalises its parameters; a search replays the same ones often.
_make_categorical = lru_cache(maxsize=1024)(Categorical)


@lru_cache(maxsize=4096)
def _make_perfect_tile(extent: int, n: int, bound: int | None, weights: Any) -> PerfectTile:
    return PerfectTile(extent, n, bound, _level_weights(weights))


@lru_cache(maxsize=4096)
def _make_partitioned_tile(
    extent: int, n: int, partition_pos: int, innerpart_factor: int, weights: Any
) -> PartitionedTile:
    return PartitionedTile(extent, n, partition_pos, innerpart_factor, _level_weights(weights))


@lru_cache(maxsize=4096)
def _make_imperfect_tile(
    extent: int, n: int, bound: int | None, max_waste: float, weights: Any, waste_penalty: int
) -> ImperfectTile:
    return ImperfectTile(extent, n, bound, max_waste, _level_weights(weights), waste_penalty)


def _categorical(sch: TVMSchedule, candidates: Any, probs: Any) -> Categorical:
    return _make_categorical(candidates, probs)


def _perfect_tile(
    sch: TVMSchedule, loop: Any, n: int, max_innermost_factor: int | None, weights: Any
) -> PerfectTile:
    return _make_perfect_tile(loop_extent(sch, loop), n, max_innermost_factor, weights)


def _partitioned_tile(
    sch: TVMSchedule, loop: Any, n: int, partition_pos: int, innerpart_factor: int, weights: Any
) -> PartitionedTile:
    extent = loop_extent(sch, loop)
    return _make_partitioned_tile(extent, n, partition_pos, innerpart_factor, weights)


def _imperfect_tile(
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


def _level_weights(weights: Any) -> Any:
    """Weights as a trace stores them, [[level, [[factor, weight], ...]], ...], for a
    distribution.
    """
    if weights is None:
        return None
    return {level: {factor: weight for factor, weight in table} for level, table in weights}


def _compute_location(sch: TVMSchedule, block: Any, decay: float) -> ComputeLocation:
    locations = analysis.compute_locations(sch, block)
    if not 0 < decay <= 1:
        raise ValueError(f"decay={decay}: give more than 0 and at most 1")
    if decay == 1:
        return ComputeLocation(locations)
    outermost = sum(1 for location in locations if location < 0)
    weights = tuple(decay ** max(0, k - outermost) for k in range(len(locations)))
    return ComputeLocation(locations, weights)


def _place(
    sch: TVMSchedule, distribution: Distribution, decision: Any, block: Any, decay: float
) -> Result:
    if decision == analysis.INLINE:
        return Result([INLINED], "l", True)
    if decision == analysis.ROOT:
        return Result([AT_ROOT], "l", True)
    consumer = get_consumers(sch, block)[0]
    return Result([get_loops(sch, consumer)[decision]], "l", True)


def _loop_order(sch: TVMSchedule, loops: Any) -> Permutation:
    return Permutation(len(loops))


def _ordered(sch: TVMSchedule, distribution: Distribution, decision: Any, loops: Any) -> Result:
    return Result([loops[k] for k in decision], "l" * len(decision), False)


def _int_range(sch: TVMSchedule, start: int, stop: int, step: int) -> IntRange:
    return IntRange(start, stop, step)


def _subset(sch: TVMSchedule, items: Any, min_size: int, max_size: int | None) -> Subset:
    return Subset(tuple(items), min_size, max_size)


class SamplingPrimitives(InstructionGroup):
    """Each takes ``name`` (the site's name in the trace) and ``decision`` (a value to use, not
    draw).
    """

    @sampling(_given)
    def sample(
        self, distribution: DistributionValue, decision: Any = None, name: str | None = None
    ) -> Any:
        """Draw from any distribution, your own too: an ``IntRV``, or a list for tuple decisions."""
        return self._draw("sample", [distribution], name, decision)

    @sampling(_categorical)
    def sample_categorical(
        self,
        candidates: Sequence[int],
        probs: Sequence[float] | None = None,
        decision: int | None = None,
        name: str | None = None,
    ) -> IntRV:
        """One of some integers: ``[0, 16, 64]  ->  v0 = 16``; uniform without ``probs``."""
        result: IntRV = self._draw("sample_categorical", [candidates, probs], name, decision)
        return result

    @sampling(_perfect_tile)
    def sample_perfect_tile(
        self,
        loop: Loop,
        n: int,
        max_innermost_factor: int | None = 16,
        decision: Sequence[int] | None = None,
        *,
        weights: LevelWeights = None,
        name: str | None = None,
    ) -> list[IntRV]:
        """``n`` factors whose product is the loop's extent: ``for i in 128, n=2  ->  [8, 16]``.

        ``weights`` is a prior: {level: {factor: weight}}, levels from 0 or from -1 inwards.
        """
        args = [loop, n, max_innermost_factor, weights]
        result: list[IntRV] = self._draw("sample_perfect_tile", args, name, decision)
        return result

    @sampling(_partitioned_tile)
    def sample_partitioned_tile(
        self,
        loop: Loop,
        n: int,
        partition_pos: int = 0,
        innerpart_factor: int = 1,
        decision: Sequence[int] | None = None,
        *,
        weights: LevelWeights = None,
        name: str | None = None,
    ) -> list[IntRV]:
        """Factors whose product from ``partition_pos`` on is a multiple of ``innerpart_factor``."""
        args = [loop, n, partition_pos, innerpart_factor, weights]
        result: list[IntRV] = self._draw("sample_partitioned_tile", args, name, decision)
        return result

    @sampling(_imperfect_tile)
    def sample_imperfect_tile(
        self,
        loop: Loop,
        n: int,
        max_innermost_factor: int | None = 16,
        decision: Sequence[int] | None = None,
        *,
        max_waste: float = 0.25,
        weights: LevelWeights = None,
        waste_penalty: int = 8,
        name: str | None = None,
    ) -> list[IntRV]:
        """``n`` factors that cover the loop: ``for i in 127, n=2  ->  [16, 8]``, for 128.

        Their product is at most ``1 + max_waste`` times the extent, and the outermost no larger
        than the others need. ``weights`` is a prior as for ``sample_perfect_tile``, and
        ``waste_penalty`` makes a tile less probable, the more it wastes. Splitting by them
        predicates the body.
        """
        args = [loop, n, max_innermost_factor, max_waste, weights, waste_penalty]
        result: list[IntRV] = self._draw("sample_imperfect_tile", args, name, decision)
        return result

    @sampling(_compute_location, _place, prefix="l")
    def sample_compute_location(
        self,
        block: Block,
        decision: int | None = None,
        name: str | None = None,
        *,
        decay: float = 1.0,
    ) -> LoopRV:
        """Where to compute a block: -2 inlined, -1 where it is, k >= 0 its consumer's k-th loop.

        Give the result to ``compute_at``, which knows the first two. ``decay`` is a prior: each
        loop is so many times as likely as the one outside it.
        """
        result: LoopRV = self._draw("sample_compute_location", [block, decay], name, decision)
        return result

    @sampling(_loop_order, _ordered, prefix="l")
    def sample_loop_order(
        self,
        loops: Sequence[LoopRV],
        decision: Sequence[int] | None = None,
        name: str | None = None,
    ) -> list[LoopRV]:
        """The loops in a random order, for ``reorder``: ``[i, j, k]  ->  [k, i, j]``."""
        result: list[LoopRV] = self._draw("sample_loop_order", [loops], name, decision)
        return result

    @sampling(_int_range)
    def sample_int_range(
        self,
        start: int,
        stop: int,
        step: int = 1,
        decision: int | None = None,
        name: str | None = None,
    ) -> IntRV:
        """An integer of ``range(start, stop, step)``: ``1..9 by 2  ->  v0 = 5``."""
        result: IntRV = self._draw("sample_int_range", [start, stop, step], name, decision)
        return result

    @sampling(_subset)
    def sample_subset(
        self,
        items: Sequence[int],
        min_size: int = 0,
        max_size: int | None = None,
        decision: Sequence[int] | None = None,
        name: str | None = None,
    ) -> list[IntRV]:
        """Some of the items, as one 0 or 1 an item: ``[3, 5, 7]  ->  [1, 0, 1]``.

        The decision is the items themselves, here ``[3, 7]``.
        """
        args = [items, min_size, max_size]
        result: list[IntRV] = self._draw("sample_subset", args, name, decision)
        return result


class ChoicePrimitives(InstructionGroup):
    """Structural forks."""

    @choice
    def choose(
        self,
        name: str,
        options: Sequence[T],
        probs: Sequence[float] | None = None,
        decision: int | None = None,
    ) -> T:
        """Take one of some options; the host program forks on what is returned.

        ``Space.sketches`` finds every path; ``decision`` forces the option of that number.
        """
        result: T = self._choose(name, options, probs, decision)
        return result
