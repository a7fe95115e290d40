"""Where a reduction's initial value is set."""

from __future__ import annotations

from schedlang.analysis import (
    LoopKind,
    block_facts,
    constant_extent,
    loop_kinds,
    require,
)
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.finish import set_init_apart, vectorize_inner
from schedlang.spaces.module import module

PLACES = ("outermost", "drawn")


@instruction
def initialize_before(
    sch: Schedule, block: BlockRV, position: int | IntExpr, max_lanes: int
) -> None:
    """Set a reduction's initial value before its loop number ``position``, 0 being the outermost.

    ::

        for i: for j: for k: {init if k == 0; C += ..}   ->   for i: {for j: init; for j: for k: C}

    The example has position 1. A position inside the outermost reduction loop means that loop.
    ``max_lanes`` is the largest number of elements that one vector store initialises; 0 disables
    vector stores.
    """
    init = set_init_apart(sch, block, int(position))
    if init is not None and max_lanes > 0:
        vectorize_inner(sch, init, max_lanes)


@module(stage="finish")
def decompose_reduction(
    sch: Schedule, block: BlockRV, *, where: str = "outermost", max_lanes: int = 0
) -> None:
    """Give a reduction's initial value a block of its own.

    ::

        for i: for k: for j: {init if k == 0; C}   ->   for i: {for j: init; for k: for j: C}

    ``where`` is ``"outermost"``: before the outermost reduction loop (MetaSchedule's
    RewriteReductionBlock); or ``"drawn"``: before that loop or one around it. Use it after the
    loops are parallelised and vectorised, because TVM does not parallelise a loop around a
    decomposed reduction, and without ``parallel_vectorize_unroll``, which decomposes as well.
    """
    if where not in PLACES:
        raise SpaceError(f"decompose_reduction(where={where!r}): it takes one of {PLACES}")
    facts = block_facts(sch, block)
    require(bool(facts.reduction_extents) and facts.has_init, "it sets no initial value")
    loops = sch.get_loops(block)
    kinds = loop_kinds(sch, loops)
    require(any(kind != LoopKind.SPATIAL for kind in kinds), "it has no reduction loop")
    first = next(k for k, kind in enumerate(kinds) if kind != LoopKind.SPATIAL)
    position: int | IntExpr = first
    if where == "drawn" and first > 0:
        # Before a loop of extent 1 is the same as before the loop inside it.
        useful = [k for k in range(first) if constant_extent(sch, loops[k]) != 1]
        if useful:
            position = sch.sample_categorical([*useful, first], name=f"init:{facts.name}")
    initialize_before(sch, block, position, max_lanes)
