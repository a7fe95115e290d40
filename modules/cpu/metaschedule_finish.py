"""Finish a CPU program as MetaSchedule's post-processors do.

One instruction does what RewriteParallelVectorizeUnroll and RewriteReductionBlock do (apache/tvm,
``src/s_tir/meta_schedule/postproc``), so that our space contains MetaSchedule's programs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.analysis import (
    LoopKind,
    access_strides,
    block_facts,
    constant_extent,
    is_single_child,
    loop_kind,
)
from schedlang.analysis.concurrency import (
    has_independent_iterations,
    has_plain_body,
    loop_work,
    starts_at_zero,
)
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import check_positive
from schedlang.modules.shared.finish import annotate_unroll, every_block, set_init_apart


@dataclass(frozen=True, slots=True)
class _LoopFacts:
    """The facts that decide whether a loop is parallelised or vectorised."""

    extent: int | None
    independent: bool
    annotated: bool
    single_child: bool

    @property
    def fusible(self) -> bool:
        return self.independent and not self.annotated and self.extent is not None


@instruction
def finish_like_metaschedule(
    sch: Schedule, max_jobs: int | IntExpr, max_lanes: int, max_step: int | IntExpr
) -> None:
    """Finish every block with fused loops: outer ones parallel, inner ones vectorised.

    ::

        for i in 8: for j in 4: for k: for l in 16: C
        ->  parallel ij in 32: {vectorized l in 16: init; for k: vectorized l in 16: C}  # unrolled

    Outer spatial loops are fused until they give more than ``max_jobs`` iterations. Inner spatial
    loops are fused while they give at most ``max_lanes`` iterations and every access of the block
    is contiguous along them or does not depend on them. If all loops of a block qualify, they are
    fused into one loop, which is split by ``max_lanes``. Blocks that reduce are annotated for
    unrolling up to ``max_step`` steps (0 disables it); their initial values are set before the
    outermost reduction loop.
    """
    check_positive("finish_like_metaschedule", max_jobs=max_jobs, max_lanes=max_lanes)
    fuse_and_finish(sch, max_jobs, max_lanes, max_step)
    sch.overlap_last_tiles()


def fuse_and_finish(
    sch: Schedule,
    max_jobs: int | IntExpr,
    max_lanes: int,
    max_step: int | IntExpr,
    parallel_from: int | IntExpr = 0,
) -> None:
    """Finish every block; nests that do less work than ``parallel_from`` get no threads."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = sch.get_loops(block)
        if loops:
            worth = parallel_from <= 0 or loop_work(sch, loops[0]) >= parallel_from
            _parallelize_and_vectorize(sch, block, loops, max_jobs if worth else 0, max_lanes)
            if block_facts(sch, block).reduction_extents:
                annotate_unroll(sch, block, max_step)
    for block in every_block(sch):
        set_init_apart(sch, block)


def _parallelize_and_vectorize(
    sch: Schedule, block: BlockRV, loops: list[LoopRV], max_jobs: int | IntExpr, max_lanes: int
) -> None:
    """Fuse outer loops for threads, none with ``max_jobs`` 0, and inner loops for lanes."""
    facts = [_loop_facts(sch, loop) for loop in loops]
    contiguous = _contiguous_loops(access_strides(sch, block, loops), facts)
    outer = _outer_loops(facts, max_jobs)
    inner = _inner_loops(facts[max(0, len(facts) - contiguous) :], max_lanes)
    plain = has_plain_body(sch, block)
    if inner and not plain:
        inner = 0
    # None (all extents are 1) and 0 differ: with 0, a loop too long for a vector is split.
    if outer is not None and inner is not None:
        if plain and contiguous >= len(loops) and all(f.fusible and f.single_child for f in facts):
            rows, lanes = sch.split(sch.fuse(*loops), [None, max_lanes])
            if max_jobs > 0:
                sch.parallel(rows)
            sch.vectorize(lanes)
            return
        outer = min(outer, len(loops) - inner)
    if outer and max_jobs > 0:
        sch.parallel(sch.fuse(*loops[:outer]))
    if inner:
        sch.vectorize(sch.fuse(*loops[-inner:]))


def _loop_facts(sch: Schedule, loop: LoopRV) -> _LoopFacts:
    statement = sch.get(loop)
    return _LoopFacts(
        extent=constant_extent(sch, loop),
        independent=loop_kind(sch, loop) == LoopKind.SPATIAL
        and starts_at_zero(sch, loop)
        and has_independent_iterations(sch, loop),
        annotated=bool(statement.annotations) or statement.thread_binding is not None,
        single_child=is_single_child(sch, loop),
    )


def _outer_loops(facts: Sequence[_LoopFacts], max_jobs: int | IntExpr) -> int | None:
    """Return the number of outer loops to fuse for threads; None if all their extents are 1."""
    count, jobs = 0, 1
    for loop in facts:
        if not loop.fusible:
            break
        count += 1
        jobs *= loop.extent or 1
        if jobs > max_jobs or not loop.single_child:
            break
    return None if jobs == 1 else count


def _inner_loops(facts: Sequence[_LoopFacts], max_lanes: int) -> int | None:
    """Return the number of inner loops to fuse for vectors; None if all their extents are 1."""
    count, lanes = 0, 1
    for loop in reversed(facts):
        if not loop.fusible or not loop.single_child:
            break
        lanes *= loop.extent or 1
        if lanes > max_lanes:
            break
        count += 1
    return None if lanes == 1 else count


def _contiguous_loops(strides: list[list[int]] | None, facts: Sequence[_LoopFacts]) -> int:
    """Return the number of inner loops along which every access is contiguous or constant.

    The innermost loop counts whatever its stride: its lanes then gather or scatter.
    """
    if strides is None:
        return 0
    return min((_contiguous_run(row, facts) for row in strides), default=len(facts))


def _contiguous_run(strides: Sequence[int], facts: Sequence[_LoopFacts]) -> int:
    count = 0
    run: int | None = None  # elements that the loops so far cover; None before the first
    for stride, loop in zip(reversed(strides), reversed(facts), strict=True):
        if stride != 0:
            if run is None:
                if stride != 1 and count > 0:
                    break
            elif stride != run:
                break
            run = stride * (loop.extent or 0)
        count += 1
    return count
