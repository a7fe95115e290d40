"""Drawing random variables, and choosing between structures.

The instructions are first. Below them are the distributions that they draw from, and the values
of their decisions.
"""

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
from schedlang.distributions.categorical import INLINE, ROOT
from schedlang.expressions import IntRV
from schedlang.instructions.arguments import (
    Block,
    Bound,
    DistributionValue,
    LevelWeights,
    Loop,
    Probabilities,
    Required,
)
from schedlang.instructions.handles import LoopRV
from schedlang.instructions.instruction import Result
from schedlang.instructions.value_arguments import level_weights
from schedlang.language.declare import (
    CATEGORICAL,
    COMPUTE_LOCATION,
    PARTITIONED_TILE,
    PERFECT_TILE,
    choice,
    compute_location_lines,
    constraint,
    loop_order_lines,
    sampling,
    tile_lines,
)
from schedlang.tvm import analysis
from schedlang.tvm.schedule import TVMSchedule, get_consumers, get_loops, loop_extent
from schedlang.tvm.schedule.primitives import AT_ROOT, INLINED

# -- The distributions of the sampling instructions, and their decisions' values ------------------


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


T = TypeVar("T")


class SamplingPrimitives:
    """Drawing random variables.

    Each takes the site's ``name`` in the trace, and a ``decision`` to use instead of drawing.
    """

    @sampling(given)
    def sample(
        self, distribution: DistributionValue, decision: Any = None, name: str | None = None
    ) -> Any:
        """Draw from any distribution: an ``IntRV``, or a list of them for a tuple decision."""

    @sampling(categorical, tvm=CATEGORICAL)
    def sample_categorical(
        self,
        candidates: Sequence[int],
        probs: Probabilities = None,
        decision: int | None = None,
        name: str | None = None,
    ) -> IntRV:
        """Draw one of some integers: ``[0, 16, 64]  ->  v0 = 16``; uniform without ``probs``."""

    @sampling(perfect_tile, tvm=PERFECT_TILE, tvm_lines=tile_lines)
    def sample_perfect_tile(
        self,
        loop: Loop,
        n: int,
        max_innermost_factor: Bound = 16,
        decision: Sequence[int] | None = None,
        *,
        weights: LevelWeights = None,
        name: str | None = None,
    ) -> list[IntRV]:
        """Draw ``n`` factors with the extent as product: ``for i in 128, n=2  ->  [8, 16]``.

        ``weights`` is a prior: {level: {factor: weight}}, levels from 0 or from -1 inwards.
        """

    @sampling(partitioned_tile, tvm=PARTITIONED_TILE, tvm_lines=tile_lines)
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
        """Draw ``n`` factors of the loop's extent, of which the inner ones fill whole tiles.

        The product of those from ``partition_pos`` on is a multiple of ``innerpart_factor``.
        """

    @sampling(imperfect_tile)
    def sample_imperfect_tile(
        self,
        loop: Loop,
        n: int,
        max_innermost_factor: Bound = 16,
        decision: Sequence[int] | None = None,
        *,
        max_waste: float = 0.25,
        weights: LevelWeights = None,
        waste_penalty: int = 8,
        name: str | None = None,
    ) -> list[IntRV]:
        """Draw ``n`` factors that cover the loop: ``for i in 127, n=2  ->  [16, 8]``, for 128.

        Their product is at most ``1 + max_waste`` times the extent, and the outermost factor is as
        small as the others permit. ``weights`` is a prior as for ``sample_perfect_tile``. The
        larger ``waste_penalty``, the less probable are tiles that exceed the extent. Splitting by
        the factors predicates the body.
        """

    @sampling(compute_location, place, tvm=COMPUTE_LOCATION, tvm_lines=compute_location_lines)
    def sample_compute_location(
        self,
        block: Block,
        decision: int | None = None,
        name: str | None = None,
        *,
        decay: float = 1.0,
    ) -> LoopRV:
        """Draw a location for a block: -2 inlined, -1 where it is, k its consumer's k-th loop.

        Give the result to ``compute_at``, which knows the first two. ``decay`` is a prior: the
        probability of each loop relative to the one outside it; 1 makes all equally likely.
        """

    @sampling(loop_order, ordered, tvm_lines=loop_order_lines)
    def sample_loop_order(
        self,
        loops: Sequence[LoopRV],
        decision: Sequence[int] | None = None,
        name: str | None = None,
    ) -> list[LoopRV]:
        """Draw an order of the loops, for ``reorder``: ``[i, j, k]  ->  [k, i, j]``."""

    @sampling(int_range)
    def sample_int_range(
        self,
        start: int,
        stop: int,
        step: int = 1,
        decision: int | None = None,
        name: str | None = None,
    ) -> IntRV:
        """Draw an integer of ``range(start, stop, step)``: ``1..9 by 2  ->  v0 = 5``."""

    @sampling(subset)
    def sample_subset(
        self,
        items: Sequence[int],
        min_size: int = 0,
        max_size: int | None = None,
        decision: Sequence[int] | None = None,
        name: str | None = None,
    ) -> list[IntRV]:
        """Draw a subset, as a 0 or a 1 for each item: ``[3, 5, 7]  ->  [1, 0, 1]``.

        The decision is the items themselves, here ``[3, 7]``.
        """


class ChoicePrimitives:
    """Choosing between structures."""

    @choice
    def choose(
        self,
        name: str,
        options: Sequence[T],
        probs: Probabilities = None,
        decision: int | None = None,
    ) -> T:
        """Choose one of several options; the host program branches on the result.

        ``Space.sketches`` finds every path; ``decision`` is the number of the option to take.
        """

    @constraint
    def require(self, condition: Required, why: str) -> None:
        """State what drawn integers must satisfy: ``sch.require(v0 * v1 <= 64, "fits a cache")``.

        Where it does not hold, the module draws again: what it did at this place is undone. Where
        other values cannot help, or after 256 such draws, it raises ``ConstraintError``. A replay
        makes the comparison again, so that searches reject mutations that violate it, and count
        them by ``why``. Join comparisons with ``&`` and ``|``; of ``and``, ``or`` and chained
        comparisons Python hands over one part only. A plain bool is not compared again.
        """
