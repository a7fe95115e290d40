"""Putting cheap element-wise blocks into their consumers."""

from __future__ import annotations

from schedlang.analysis import block_facts, has_trivial_binding, is_output, require
from schedlang.handles import BlockRV
from schedlang.module import module
from schedlang.schedule import Schedule

# Calls that cost more to compute again in every consumer than to store once.
EXPENSIVE = frozenset({"tirx.exp", "tirx.erf", "tirx.tanh", "tirx.log", "tirx.pow", "tirx.sigmoid"})


@module
def auto_inline(
    sch: Schedule, block: BlockRV, *, inline_branches: bool = False, inline_expensive: bool = False
) -> None:
    """Inline a spatial block into its consumers.

    ::

        B = A + 1; C = B * 2   ->   C = (A + 1) * 2

    It leaves blocks with branches (padding) and with expensive calls alone unless told otherwise
    (MetaSchedule's AutoInline for CPUs: into the consumer only).
    """
    facts = block_facts(sch, block)
    require(not facts.reduction_extents and not facts.has_init, "a reduction cannot be inlined")
    require(facts.writes == 1, "it writes several buffers")
    require(not is_output(sch, block), "it writes an output")
    branches = facts.has_if_then_else or "prim.if_then_else" in facts.operations
    require(inline_branches or not branches, "it branches")
    require(inline_expensive or not facts.operations & EXPENSIVE, "it is expensive to repeat")
    require(has_trivial_binding(sch, block), "its variables are not plain loops")
    require(bool(sch.get_consumers(block)), "nothing reads it")
    sch.compute_inline(block)
