"""The spaces of MetaSchedule's Figure 10: each is the one before it and a module more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import schedlang as sl
from schedlang import modules

# Of a block: half of the second-level cache, as in the default space.
_CACHE_SHARE = 2


@dataclass(frozen=True)
class Step:
    """A space of the composition.

    Attributes
    ----------
    line: what was added to the space before it.
    space: the result.
    """

    line: str
    space: sl.Space


def cpu_steps(target: sl.Target) -> Mapping[str, Step]:
    """Compose a CPU's space for a fused dense, one module a line; the default space is the last.

    ``+`` would put ``vector_math`` at the end; it goes in front of what vectorises the loops.
    """
    lanes, cores, registers = target.lanes(32), target.cores, target.vector_registers
    finish = "parallel_vectorize_unroll"
    base = sl.Space(
        [
            modules.auto_inline(always_in_spatial_programs=True),
            modules.parallel_vectorize_unroll(cores=cores, max_lanes=4 * lanes),
        ],
        name="finished",
    )
    tiled = base + modules.multi_level_tiling(structure=("SSRSRS", "SSRS"), vector_lanes=lanes)
    in_registers = tiled + modules.register_tile(
        lanes=lanes, registers=registers, cache_bytes=target.l2_bytes // _CACHE_SHARE, prob=0.9
    )
    placed = in_registers + modules.random_compute_location(decay=0.75)
    vectors = placed.before(finish, modules.vector_math(prob=0.95))
    return {
        "finish": Step("inline, parallel, vectors, unrolling", base),
        "tile": Step("+ multi_level_tiling", tiled),
        "registers": Step("+ register_tile (packs operands)", in_registers),
        "place": Step("+ random_compute_location", placed),
        "vector math": Step("+ vector_math", vectors),
        "default": Step("sl.default_space()", sl.default_space(target)),
    }


def dot_steps(target: sl.Target) -> Mapping[str, Step]:
    """Return the default space, and with the module for bfloat16 dot products."""
    space = sl.default_space(target)
    added = space + modules.UseBF16Dot()
    return {
        "default": Step("sl.default_space()", space),
        "bf16 dot": Step("+ UseBF16Dot", added),
    }


def cuda_steps(target: sl.Target) -> Mapping[str, Step]:
    """Take the tiling out of the CUDA space, put it back, and add the tensor cores."""
    whole = sl.default_space(target)
    bound = whole.without("multi_level_tiling")
    return {
        "bind": Step("inline, reduce, bind, unroll", bound),
        "tile": Step("+ thread_tiling", whole),
        "tensor core": Step("+ UseTensorCore", whole + modules.UseTensorCore()),
    }
