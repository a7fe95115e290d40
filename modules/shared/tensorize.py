"""Tile a block to the shape of a tensor intrinsic (MetaSchedule, 3.2 and Figure 5)."""

from __future__ import annotations

from schedlang.analysis import (
    LoopKind,
    block_facts,
    constant_extent,
    has_trivial_binding,
    loop_kind,
    require,
    stores_contiguously,
)
from schedlang.analysis.intrinsics import intrinsic_axes
from schedlang.errors import InstructionError, NotApplicable, SpaceError
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.finish import parallelize_outer
from schedlang.modules.shared.multi_level_tiling import multi_level_tiling
from schedlang.spaces.module import Module, module


@module(before="multi_level_tiling")
def tensorize_with(
    sch: Schedule,
    block: BlockRV,
    *,
    intrinsic: str,
    tiling: Module | None = multi_level_tiling,
    max_jobs: int = 32,
) -> None:
    """Compute the innermost part of a block with a tensor intrinsic, and tile the remaining loops.

    ::

        for i, j, k: C  ->  parallel i0, j0: {init; for k0: for i1, j1: for k1: intrinsic(C, A, B)}

    ``intrinsic`` is a name registered with TVM or by ``define_intrinsic``. Its spatial loops are
    matched with the block's last spatial loops, its reduction loops with the last reduction loops;
    their extents must divide the block's. ``tiling`` is a module that tiles the resulting block of
    calls; None leaves its loops as they are. Then outer loops are fused until they give
    ``max_jobs`` iterations, and parallelised, which TVM refuses after the initial value is set
    apart; 0 leaves them serial.
    """
    if max_jobs < 0:
        raise SpaceError(f"tensorize_with(max_jobs={max_jobs}): give 0 or more")
    if tiling is not None and not isinstance(tiling, Module):
        raise SpaceError(f"tensorize_with(tiling={tiling!r}): give a module, or None for no tiling")
    try:
        axes = intrinsic_axes(intrinsic)
    except ValueError as error:
        raise SpaceError(f"tensorize_with(intrinsic={intrinsic!r}): {error}") from None
    require(has_trivial_binding(sch, block), "it is scheduled already")
    name = block_facts(sch, block).name
    outer, inner = _split_to_shape(sch, block, axes)
    sch.reorder(*outer, *inner)
    calls = sch.blockize(inner[0])
    if tiling is not None:
        tiling(sch, calls)
    if max_jobs:
        parallelize_outer(sch, calls, max_jobs)
    _set_apart_init(sch, calls)
    try:
        sch.tensorize(calls, intrinsic)
    except InstructionError as error:
        raise NotApplicable(f"{name} is not what {intrinsic} computes: {error.reason}") from error


def _split_to_shape(
    sch: Schedule, block: BlockRV, axes: tuple[tuple[str, int], ...]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the remaining loops, and the intrinsic's own loops in its order."""
    outer = sch.get_loops(block)
    kinds = [loop_kind(sch, loop) for loop in outer]
    places = list(range(len(outer)))
    inner: list[LoopRV] = []
    for kind, extent in reversed(axes):
        fitting = [place for place in places if kinds[place] == kind]
        require(bool(fitting), "it has fewer loops than the intrinsic")
        place = fitting[-1]
        places.remove(place)
        have = constant_extent(sch, outer[place])
        divides = have is not None and have % extent == 0
        require(divides, f"a loop of {have} iterations is no multiple of the intrinsic's {extent}")
        outer[place], part = sch.split(outer[place], [None, extent])
        inner.insert(0, part)
    return outer, inner


def _set_apart_init(sch: Schedule, calls: BlockRV) -> None:
    steps = [x for x in sch.get_loops(calls) if loop_kind(sch, x) == LoopKind.REDUCTION]
    if not steps or not block_facts(sch, calls).has_init:
        return
    init = sch.decompose_reduction(calls, steps[0])
    for fill in sch.get_child_blocks(init):
        lanes = sch.get_loops(fill)[-1:]
        if lanes and stores_contiguously(sch, fill, lanes[0]):
            sch.vectorize(lanes[0])
