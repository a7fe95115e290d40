"""The default space of CPUs."""

from __future__ import annotations

from schedlang.modules import (
    auto_inline,
    multi_level_tiling,
    parallel_vectorize_unroll,
    random_compute_location,
)
from schedlang.space import Space
from schedlang.targets.target import Target


def cpu_space(target: Target, *, element_bits: int = 32) -> Space:
    """Inline, tile, place what is left, then parallelise, vectorise and unroll.

    The prior prefers innermost factors that fill the target's vectors of ``element_bits`` elements.
    """
    lanes = max(1, target.vector_bits // element_bits)
    return Space(
        [
            auto_inline,
            multi_level_tiling(structure=("SSRSRS", "SSRS"), vector_lanes=lanes),
            random_compute_location,
            parallel_vectorize_unroll(cores=target.cores, max_lanes=4 * lanes),
        ],
        name="cpu",
    )
