"""GPU reductions across the threads of a block."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.analysis import (
    LoopKind,
    block_facts,
    common_depth,
    constant_extent,
    has_data_reuse,
    has_trivial_binding,
    loop_kind,
    thread_axis,
)
from schedlang.errors import InstructionError, NotApplicable, SpaceError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import check_prob, complement
from schedlang.modules.reductions import fuse_reduction_loops, require_serial_reduction
from schedlang.spaces.module import block_names, module

_THREADS = "threadIdx.x"
_WARP = 32


@instruction
def reduce_across_threads(sch: Schedule, block: BlockRV, threads: int | IntExpr) -> None:
    """Run a reduction on ``threads`` threads; a single consumer reads it from shared memory.

    ::

        for i: for k: C[i] += A[i, k];  for i: for j: D[i, j] = C[i] * A[i, j]
        ->  for i: {for k0: k1 in threads: C[i] += A[i, k0 k1];  for j0: j1 in threads: D[i, j]}

    If the consumer is bound to threads already, the reduction uses the same number.
    """
    place = _place_below_consumer(sch, block)
    if place is not None:
        consumer, depth = place
        loops = sch.get_loops(consumer)
        bound = [loop for loop in loops if thread_axis(sch, loop) == _THREADS]
        at = loops[depth]
        if bound:
            threads = constant_extent(sch, bound[0]) or threads
        else:
            outer, inner = sch.split(loops[-1], [None, threads])
            sch.bind(inner, _THREADS)
            at = outer if depth == len(loops) - 1 else at
        sch.compute_at(block, at, preserve_unit_loops=True)
        sch.set_scope(block, 0, "shared")
    fused = fuse_reduction_loops(sch, block)
    _, inner = sch.split(fused, [None, threads])
    sch.bind(inner, _THREADS)


def _place_below_consumer(sch: Schedule, block: BlockRV) -> tuple[BlockRV, int] | None:
    """Return the first consumer, and the number of its loop to compute the block under."""
    consumers = sch.get_consumers(block)
    if block_facts(sch, block).writes != 1 or not consumers or _is_tiled_later(sch, consumers[0]):
        return None
    theirs: list[LoopRV] = sch.get_loops(consumers[0])
    depth = len(theirs) if len(consumers) == 1 else common_depth(sch, consumers)
    ours = 0
    for loop in sch.get_loops(block):
        if loop_kind(sch, loop) != LoopKind.SPATIAL:
            break
        ours += 1
    deepest = min(ours, depth) - 1
    return (consumers[0], deepest) if deepest >= 0 else None


def _is_tiled_later(sch: Schedule, block: BlockRV) -> bool:
    facts = block_facts(sch, block)
    reduces = bool(facts.reduction_extents) and facts.writes == 1
    return reduces and has_trivial_binding(sch, block) and has_data_reuse(sch, block)


@module(at="root")
def cross_thread_reduction(
    sch: Schedule,
    *,
    thread_extents: Sequence[int] = (4, 8, 16, 32, 64, 128, 256, 512),
    max_threads_per_block: int = 1024,
    prob: float = 0.5,
    prior: bool = False,
) -> None:
    """Share each reduction among the threads of a GPU block, or not: a choice per reduction.

    ::

        for i: for k: C[i] += A[i, k]   ->   for i: for k0: k1 = threadIdx.x: C[i] += A[i, k0 k1]

    The number of threads is drawn from ``thread_extents``; ``prob`` is the probability of sharing.
    With ``prior``, whole warps that all have work are preferred. The conditions are MetaSchedule's
    (CrossThreadReduction): the reduction is serial; one that tiling would help qualifies only if
    its spatial loops give at most ``max_threads_per_block`` iterations. Consumers are visited
    before their producers, so that all reductions of a row can use the same threads. ``auto_bind``
    binds the outer loops later.
    """
    _check(thread_extents, max_threads_per_block)
    check_prob("cross_thread_reduction", prob)
    for name in reversed(block_names(sch)):
        mark = sch.mark()
        try:
            block = sch.get_block(name)
            require_serial_reduction(sch, block, max_threads_per_block)
            if sch.choose(f"cross_thread:{name}", (True, False), _probabilities(prob)):
                allowed = [extent for extent in thread_extents if extent <= max_threads_per_block]
                reduce_across_threads(sch, block, _draw_threads(sch, block, name, allowed, prior))
        except (NotApplicable, InstructionError):
            sch.rollback(mark)


def _probabilities(prob: float) -> tuple[float, float] | None:
    return None if prob == 0.5 else (prob, complement(prob))


def _draw_threads(
    sch: Schedule, block: BlockRV, name: str, allowed: list[int], prior: bool
) -> int | IntExpr:
    """Draw the number of threads; 0 where those of the consumer are taken."""
    if _consumer_has_threads(sch, block):
        return 0
    length = math.prod(block_facts(sch, block).reduction_extents)
    weights = [_share_at_work(threads, length) for threads in allowed] if prior else None
    return sch.sample_categorical(allowed, weights, name=f"threads:{name}")


def _share_at_work(threads: int, length: int) -> float:
    """Return which part of the lanes of all warps has one of ``length`` elements to reduce."""
    lanes = _WARP * -(-threads // _WARP)
    return length / (-(-length // threads) * lanes)


def _consumer_has_threads(sch: Schedule, block: BlockRV) -> bool:
    place = _place_below_consumer(sch, block)
    if place is None:
        return False
    return any(thread_axis(sch, loop) == _THREADS for loop in sch.get_loops(place[0]))


def _check(thread_extents: Sequence[int], max_threads_per_block: int) -> None:
    given = f"cross_thread_reduction(thread_extents={thread_extents!r})"
    for extent in thread_extents:
        if not isinstance(extent, int) or extent < 1:
            raise SpaceError(
                f"{given}: it takes a list of positive integers, and {extent!r} is none"
            )
    if all(extent > max_threads_per_block for extent in thread_extents):
        raise SpaceError(
            f"{given}: at least one must be of 1 to max_threads_per_block={max_threads_per_block}"
        )
