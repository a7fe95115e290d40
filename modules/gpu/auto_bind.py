"""Binding loops to the blocks and threads of a GPU."""

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
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import check_positive
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
    block without an outer spatial loop gets one of extent 1. A block whose inner loops are bound to
    threads already gets ``blockIdx.x`` only; a block that has ``blockIdx.x`` stays as it is.
    """
    axes = _axes(sch, block)
    if "blockIdx" in axes:
        return
    loops = sch.get_loops(block)
    if not loops or loop_kind(sch, loops[0]) != LoopKind.SPATIAL:
        sch.add_unit_loop(loops[0] if loops else block)
        loops = sch.get_loops(block)
    outer = _outer_spatial(sch, loops)
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
        extent = _iterations(sch, _outer_spatial(sch, sch.get_loops(block)))
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
    require("blockIdx" not in axes, "it is bound already")
    loops = sch.get_loops(block)
    outer = _outer_spatial(sch, loops)
    plain = not loops or loop_kind(sch, loops[0]) != LoopKind.SPATIAL or bool(outer)
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


def _outer_spatial(sch: Schedule, loops: list[LoopRV]) -> list[LoopRV]:
    """Return the outer loops that can be fused: spatial, serial, perfectly nested."""
    outer: list[LoopRV] = []
    for loop in loops:
        if loop_kind(sch, loop) != LoopKind.SPATIAL or not loop_is_plain(sch, loop):
            break
        outer.append(loop)
        if not is_single_child(sch, loop):
            break
    return outer


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
