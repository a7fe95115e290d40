"""The spaces of CPUs: the default one, and that of programs that only move data."""

from __future__ import annotations

from schedlang.modules.cpu.move_data import move_data
from schedlang.modules.cpu.parallel_vectorize_unroll import parallel_vectorize_unroll
from schedlang.modules.cpu.register_tile import register_tile
from schedlang.modules.cpu.vector_math import vector_math
from schedlang.modules.shared.add_rfactor import add_rfactor
from schedlang.modules.shared.auto_inline import (
    auto_inline,
    inline_constants,
    random_compute_location,
)
from schedlang.modules.shared.multi_level_tiling import multi_level_tiling
from schedlang.modules.shared.pad_einsum import pad_einsum, place_padded_result
from schedlang.spaces.space import Space
from schedlang.targets.cpu.machine import CPUMachine

# Probability that a block is tiled for registers where it could also be tiled in levels, and
# probability of what nearly always pays: inlining transposes, vector mathematics, finishing along
# the stored axis. The alternatives are in the space because some program may need them.
_REGISTER_TILES = 0.9
_USUAL = 0.95
# As a producer's place, each loop is this many times as likely as the loop around it.
_OUTER_LOCATIONS = 0.75
# Operations and accesses to elements from which on a program is worth threads everywhere.
_LARGE_WORK = 2**17


def cpu_space(target: CPUMachine, *, priors: bool = True) -> Space:
    """Inline, tile, place the remaining blocks, then parallelise, vectorise and unroll.

    The prior depends on the machine: its vectors, for elements of 32 bits, its vector
    registers and its cores. Programs that waste them become rare, and none is forbidden. Without
    ``priors`` every draw is uniform.
    """
    lanes = target.lanes(32)
    usual = _USUAL if priors else 0.5
    # One module for both, so that a module placed before or instead of it gets untiled blocks.
    tiling = Space(
        [
            register_tile(
                lanes=lanes,
                registers=target.vector_registers,
                cache_bytes=target.l2_bytes // 2,
                prob=_REGISTER_TILES if priors else 0.5,
                prior=priors,
            ),
            multi_level_tiling(structure=("SSRSRS", "SSRS"), vector_lanes=lanes if priors else 0),
        ]
    )
    return Space(
        [
            inline_constants,
            auto_inline(always_in_spatial_programs=True, unordered_prob=usual),
            pad_einsum(lanes=lanes),
            add_rfactor(cores=target.cores, vector_lanes=lanes if priors else 0),
            tiling.as_module("multi_level_tiling"),
            place_padded_result,
            random_compute_location(decay=_OUTER_LOCATIONS if priors else 1.0),
            vector_math(prob=usual),
            parallel_vectorize_unroll(
                cores=target.cores, max_lanes=4 * lanes, prob=usual, large_work=_LARGE_WORK
            ),
        ],
        name="cpu",
    )


def cpu_movement_space(target: CPUMachine) -> Space:
    """Inline what can be inlined, and finish each block by a closed form: two programs at most."""
    return Space(
        [
            inline_constants,
            auto_inline(always_in_spatial_programs=True),
            move_data(cores=target.cores),
        ],
        name="cpu_movement",
    )
