"""Binding loops, and levels of tiles, to the blocks and threads of a GPU."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.analysis import (
    LoopKind,
    block_facts,
    constant_extent,
    is_below_root,
    is_single_child,
    loop_is_plain,
    loop_kind,
    require,
    thread_axis,
)
from schedlang.analysis.concurrency import has_independent_iterations, is_regular, starts_at_zero
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import check_positive
from schedlang.spaces.module import module


@instruction
def bind_to_threads(
    sch: Schedule,
    block: BlockRV,
    threads: int | IntExpr,
    max_threadblocks: int,
    max_threads_per_block: int,
) -> None:
    """Fuse a block's outer spatial loops and run them on GPU blocks of ``threads`` threads.

    ::

        for i: for j: B   ->   ij0 = blockIdx.x: ij1 = threadIdx.x: B

    More iterations than ``max_threadblocks * max_threads_per_block`` leave a serial loop inside. A
    block without an outer spatial loop whose iterations are independent gets one of extent 1. A
    block whose inner loops are bound to threads already gets ``blockIdx.x`` only; a block that has
    ``blockIdx.x`` stays as it is.
    """
    axes = _axes(sch, block)
    if "blockIdx" in axes:
        return
    is_shared = "threadIdx" in axes
    loops = sch.get_loops(block)
    if not loops or not _may_run_at_once(sch, loops[0], is_shared=is_shared):
        sch.add_unit_loop(loops[0] if loops else block)
        loops = sch.get_loops(block)
    outer = _outer_spatial(sch, loops, is_shared=is_shared)
    if not outer:
        return
    fused = sch.fuse(*outer)
    if "threadIdx" in axes:
        sch.bind(fused, "blockIdx.x")
        return
    extent = constant_extent(sch, fused)
    if extent is not None and extent > max_threadblocks * max_threads_per_block:
        factors = [None, max_threadblocks, max_threads_per_block]
        rest, blocks, lanes = sch.split(fused, factors)
        sch.reorder(blocks, lanes, rest)
    else:
        blocks, lanes = sch.split(fused, [None, threads])
    sch.bind(blocks, "blockIdx.x")
    sch.bind(lanes, "threadIdx.x")


@instruction
def bind_unbound_blocks(sch: Schedule, max_threadblocks: int, max_threads_per_block: int) -> None:
    """Bind every unbound block to as many threads as the limits allow.

    ::

        {i = blockIdx.x: j = threadIdx.x: B; for i: for j: C}
        ->  {i = blockIdx.x: j = threadIdx.x: B; ij0 = blockIdx.x: ij1 = threadIdx.x: C}

    MetaSchedule's RewriteUnboundBlock.
    """
    for block in sch.get_child_blocks(sch.get_block("root")):
        is_shared = "threadIdx" in _axes(sch, block)
        if not _may_bind(sch, block, is_shared=is_shared):
            continue
        outer = _outer_spatial(sch, sch.get_loops(block), is_shared=is_shared)
        extent = _iterations(sch, outer)
        threads = min(max_threads_per_block, extent)
        bind_to_threads(sch, block, threads, max_threadblocks, max_threads_per_block)


@module(stage="finish")
def auto_bind(
    sch: Schedule,
    block: BlockRV,
    *,
    max_threadblocks: int = 256,
    thread_extents: Sequence[int] = (32, 64, 128, 256, 512, 1024),
    max_threads_per_block: int = 1024,
    sms: int = 0,
) -> None:
    """Bind an unbound block to GPU threads; the number of threads is drawn.

    ::

        for i: for j: B   ->   ij0 = blockIdx.x: ij1 = threadIdx.x: B

    The number is drawn from the ``thread_extents`` that do not exceed the loop's iterations
    (MetaSchedule's AutoBind). With ``sms``, the number of multiprocessors, the prior prefers at
    least one block for each of them.
    """
    _check(max_threadblocks, thread_extents, max_threads_per_block)
    require(is_below_root(sch, block), "it is part of another block")
    axes = _axes(sch, block)
    is_shared = "threadIdx" in axes
    require("blockIdx" not in axes, "it is bound already")
    require(_may_bind(sch, block, is_shared=is_shared), "the order of its iterations matters")
    loops = sch.get_loops(block)
    outer = _outer_spatial(sch, loops, is_shared=is_shared)
    plain = not loops or not _may_run_at_once(sch, loops[0], is_shared=is_shared) or bool(outer)
    require(plain, "its outer loop is annotated, or not serial")
    extent = _iterations(sch, outer)
    threads: int | IntExpr = min(extent, max_threads_per_block)
    if "threadIdx" not in axes and extent <= max_threadblocks * max_threads_per_block:
        allowed = [t for t in thread_extents if t <= threads]
        if len(allowed) == 1:
            threads = allowed[0]
        elif allowed:
            weights = [min(1.0, extent / (t * sms)) for t in allowed] if sms else None
            site = f"threads:{block_facts(sch, block).name}"
            threads = sch.sample_categorical(allowed, weights, name=site)
    bind_to_threads(sch, block, threads, max_threadblocks, max_threads_per_block)


def _axes(sch: Schedule, block: BlockRV) -> set[str]:
    """Return which of ``blockIdx`` and ``threadIdx`` loops around the block are bound to."""
    return {thread_axis(sch, loop).partition(".")[0] for loop in sch.get_loops(block)}


def _outer_spatial(sch: Schedule, loops: list[LoopRV], *, is_shared: bool) -> list[LoopRV]:
    """Return the outer loops that can be fused: spatial, serial, perfectly nested."""
    outer: list[LoopRV] = []
    for loop in loops:
        if not _may_run_at_once(sch, loop, is_shared=is_shared) or not loop_is_plain(sch, loop):
            break
        if outer and constant_extent(sch, loop) is None:  # it may depend on the loop outside
            break
        outer.append(loop)
        if not is_single_child(sch, loop):
            break
    return outer


def _may_run_at_once(sch: Schedule, loop: LoopRV, *, is_shared: bool) -> bool:
    """Return whether threads may share a loop: it is spatial, and no iteration waits for another.

    With ``is_shared``, threads share inner loops already, and the iterations are independent.
    """
    if loop_kind(sch, loop) != LoopKind.SPATIAL or not starts_at_zero(sch, loop):
        return False
    # Stages in shared memory look like values that one iteration leaves to the next.
    return is_shared or has_independent_iterations(sch, loop)


def _may_bind(sch: Schedule, block: BlockRV, *, is_shared: bool) -> bool:
    """Return whether TVM binds loops around a block: not those of scans and updates."""
    return is_shared or is_regular(sch, block)


def _iterations(sch: Schedule, loops: list[LoopRV]) -> int:
    """Multiply the extents; those that are not constant count as 1."""
    return math.prod(constant_extent(sch, loop) or 1 for loop in loops)


def _check(
    max_threadblocks: int, thread_extents: Sequence[int], max_threads_per_block: int
) -> None:
    check_positive(
        "auto_bind",
        max_threadblocks=max_threadblocks,
        max_threads_per_block=max_threads_per_block,
    )
    for extent in thread_extents:
        if not isinstance(extent, int) or extent < 1:
            raise SpaceError(
                f"auto_bind(thread_extents={thread_extents!r}): it takes a list of positive "
                f"integers, and {extent!r} is none"
            )


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
