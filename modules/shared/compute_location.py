"""Compute locations of blocks that are neither inlined nor tiled."""

from __future__ import annotations

from schedlang.analysis import (
    block_facts,
    count_consumers,
    has_own_loops,
    has_plain_binding,
    is_below_root,
    is_output,
)
from schedlang.analysis.concurrency import is_in_pipeline, is_regular
from schedlang.analysis.layouts import runs_ahead
from schedlang.errors import InstructionError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import block_names, module


@module(at="root")
def random_compute_location(sch: Schedule, *, reductions: bool = True, decay: float = 1.0) -> None:
    """Draw for each producer (padding, a row's sum) the loop of its consumer to compute it under.

    ::

        A; B reads A; for i: C reads A, B   ->   for i: {A[i..]; B[i..]; C}   or as they were

    It applies to unscheduled blocks: not tiled, and alone in their loops, in programs that
    overwrite nothing they have read. Vectorised loops, as those of a register tile, are no
    locations. Blocks that depend on weights only stay at the root, to run ahead of all calls.
    Consumers are placed before their producers, so that a whole chain, such as the four
    stages of a softmax, can meet in one loop, and a block that ``add_rfactor`` split off follows
    its reduction. The conditions and the order are those of MetaSchedule's RandomComputeLocation;
    in addition, a block split off from an output may move. ``reductions=False`` leaves reductions
    where they are. ``decay`` shapes the prior: a loop is ``decay`` times as likely as the loop
    around it, under which less is repeated.
    """
    for name in reversed(block_names(sch)):
        mark = sch.mark()
        block = sch.get_block(name)
        if not _may_move(sch, block, reductions):
            sch.rollback(mark)
        else:
            loop = sch.sample_compute_location(block, name=f"location:{name}", decay=decay)
            try:
                sch.compute_at(block, loop, preserve_unit_loops=True)
            except InstructionError:  # the block stays where it is
                sch.rollback(mark)


def _may_move(sch: Schedule, block: BlockRV, reductions: bool) -> bool:
    facts = block_facts(sch, block)
    if facts.reduction_extents and not (reductions and facts.has_init):
        return False
    if is_output(sch, block) or not is_below_root(sch, block):
        return False
    if not has_plain_binding(sch, block) or not has_own_loops(sch, block):
        return False
    if not is_regular(sch, block) or not is_in_pipeline(sch, block):
        return False
    if runs_ahead(sch, block):
        return False
    return count_consumers(sch, block) > 0
