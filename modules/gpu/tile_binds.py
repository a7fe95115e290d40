"""Bind levels of tiles to the blocks and threads of a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import constant_extent, thread_axis
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule

MAX_BLOCKS_Y = 65535
"""The most blocks of a grid along y (CUDA programming guide); along x there may be 2**31 - 1."""
THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


def bind_tiles(
    sch: Schedule, levels: Sequence[list[LoopRV]], axes: Sequence[str]
) -> list[list[LoopRV]]:
    """Fuse the loops of each outer level of tiles, and bind them to the thread axes in order.

    ::

        for i0, j0: for i1, j1: for k: C  ->  ij0 = blockIdx.x: ij1 = threadIdx.x: for k: C

    Returns the levels; those that are bound have one loop. An empty level has nothing to bind.
    """
    bound: list[list[LoopRV]] = []
    for number, level in enumerate(levels):
        if number < len(axes) and level:
            fused = sch.fuse(*level)
            sch.bind(fused, axes[number])
            level = [fused]
        bound.append(level)
    return bound


@instruction
def bind_grid(sch: Schedule, outer: LoopRV, inner: LoopRV) -> LoopRV:
    """Bind two nested loops to the blocks of a grid, and return the inner one.

    ::

        for i: for j: C  ->  i = blockIdx.y: j = blockIdx.x: C

    Where ``outer`` has more iterations than ``blockIdx.y`` may, ``blockIdx.x`` has those of both,
    and ``blockIdx.y`` is a loop of one.
    """
    extent = constant_extent(sch, outer)
    if extent is not None and extent > MAX_BLOCKS_Y:
        inner = sch.fuse(outer, inner)
        outer = sch.add_unit_loop(inner)
    sch.bind(outer, "blockIdx.y")
    sch.bind(inner, "blockIdx.x")
    return inner


def threads_around(sch: Schedule, block: BlockRV) -> dict[str, int]:
    """Return the number of threads along each axis that loops around a block are bound to.

    Axes are ``threadIdx.x``, ``.y`` and ``.z``; one whose extent is not constant is left out.
    """
    found: dict[str, int] = {}
    for loop in sch.get_loops(block):
        axis = thread_axis(sch, loop)
        extent = constant_extent(sch, loop)
        if axis in THREAD_AXES and extent is not None:
            found[axis] = extent
    return found
