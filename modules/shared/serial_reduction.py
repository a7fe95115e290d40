"""Find serial reductions and fuse their loops, for add_rfactor and cross_thread_reduction."""

from __future__ import annotations

from schedlang.analysis import (
    LoopKind,
    block_facts,
    constant_extent,
    has_data_reuse,
    has_trivial_binding,
    is_single_child,
    loop_kinds,
    require,
)
from schedlang.analysis.concurrency import is_regular, loops_start_at_zero
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import STARTS_LATER


def require_serial_reduction(sch: Schedule, block: BlockRV, max_parallel: int) -> int:
    """Raise NotApplicable unless reducing in two steps, or across threads, may pay.

    The conditions are those of MetaSchedule's NeedsRFactorOrCrossThreadReduction: an unscheduled
    reduction, alone in its loops. One that tiling would help qualifies only if it has fewer spatial
    iterations than reduction iterations, and at most ``max_parallel`` of them. Returns the number
    of spatial iterations.
    """
    facts = block_facts(sch, block)
    require(bool(facts.reduction_extents) and facts.has_init, "it is no reduction")
    require(has_trivial_binding(sch, block), "it is scheduled already")
    loops = sch.get_loops(block)
    require(is_regular(sch, block), "the order of its iterations matters")
    require(loops_start_at_zero(sch, block), STARTS_LATER)
    kinds = loop_kinds(sch, loops)
    require(LoopKind.REDUCTION in kinds, "it has no reduction loop")
    require(LoopKind.OPAQUE not in kinds, "a loop is neither spatial nor a reduction")
    require(all(is_single_child(sch, loop) for loop in loops), "other blocks share its loops")
    lengths = {LoopKind.SPATIAL: 1, LoopKind.REDUCTION: 1}
    for loop, kind in zip(loops, kinds, strict=True):
        extent = constant_extent(sch, loop)
        require(extent is not None, "a loop's extent is not constant")
        lengths[kind] *= extent or 1
    spatial, reduced = lengths[LoopKind.SPATIAL], lengths[LoopKind.REDUCTION]
    if facts.writes == 1 and has_data_reuse(sch, block):
        parallel = spatial >= reduced or spatial > max_parallel
        require(not parallel, "its spatial loops are parallel enough")
    require(reduced > 1, "it reduces one element")
    return spatial


def fuse_reduction_loops(sch: Schedule, block: BlockRV) -> LoopRV:
    """Put the reduction loops inside the spatial ones and fuse them; returns the fused loop.

    ::

        for k: for i: for l: C[i]   ->   for i: for kl: C[i]
    """
    loops = sch.get_loops(block)
    kinds = loop_kinds(sch, loops)
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == LoopKind.SPATIAL]
    reduction = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != LoopKind.SPATIAL]
    if loops != [*spatial, *reduction]:
        sch.reorder(*spatial, *reduction)
    return sch.fuse(*reduction) if len(reduction) > 1 else reduction[0]
