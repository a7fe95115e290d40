"""Drawing random variables, and choosing between structures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

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
from schedlang.language.primitives import draws
from schedlang.language.primitives.declare import choice, constraint, sampling
from schedlang.language.primitives.tvm_draws import (
    CATEGORICAL,
    COMPUTE_LOCATION,
    PARTITIONED_TILE,
    PERFECT_TILE,
    compute_location_lines,
    loop_order_lines,
    tile_lines,
)

T = TypeVar("T")


class SamplingPrimitives:
    """Drawing random variables.

    Each takes the site's ``name`` in the trace, and a ``decision`` to use instead of drawing.
    """

    @sampling(draws.given)
    def sample(
        self, distribution: DistributionValue, decision: Any = None, name: str | None = None
    ) -> Any:
        """Draw from any distribution: an ``IntRV``, or a list of them for a tuple decision."""

    @sampling(draws.categorical, tvm=CATEGORICAL)
    def sample_categorical(
        self,
        candidates: Sequence[int],
        probs: Probabilities = None,
        decision: int | None = None,
        name: str | None = None,
    ) -> IntRV:
        """Draw one of some integers: ``[0, 16, 64]  ->  v0 = 16``; uniform without ``probs``."""

    @sampling(draws.perfect_tile, tvm=PERFECT_TILE, tvm_lines=tile_lines)
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

    @sampling(draws.partitioned_tile, tvm=PARTITIONED_TILE, tvm_lines=tile_lines)
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

    @sampling(draws.imperfect_tile)
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

    @sampling(
        draws.compute_location, draws.place, tvm=COMPUTE_LOCATION, tvm_lines=compute_location_lines
    )
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

    @sampling(draws.loop_order, draws.ordered, tvm_lines=loop_order_lines)
    def sample_loop_order(
        self,
        loops: Sequence[LoopRV],
        decision: Sequence[int] | None = None,
        name: str | None = None,
    ) -> list[LoopRV]:
        """Draw an order of the loops, for ``reorder``: ``[i, j, k]  ->  [k, i, j]``."""

    @sampling(draws.int_range)
    def sample_int_range(
        self,
        start: int,
        stop: int,
        step: int = 1,
        decision: int | None = None,
        name: str | None = None,
    ) -> IntRV:
        """Draw an integer of ``range(start, stop, step)``: ``1..9 by 2  ->  v0 = 5``."""

    @sampling(draws.subset)
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
