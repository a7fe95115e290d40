"""Inline constants into the blocks that read them."""

from __future__ import annotations

from schedlang.analysis import block_facts, count_consumers, is_output, require, written_rank
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import not_applicable_if_refused
from schedlang.spaces.module import module


@module
def inline_constants(sch: Schedule, block: BlockRV, *, tensors: bool = False) -> None:
    """Inline a block that computes a constant scalar.

    ::

        c[()] = 59; B = A + c[()]   ->   B = A + 59

    The conditions are those of MetaSchedule's InlineConstantScalars. ``tensors`` includes constant
    tensors, whose elements depend on their indices only.
    """
    facts = block_facts(sch, block)
    require(facts.reads == 0, "it reads a buffer")
    require(facts.writes == 1, "it does not write one buffer")
    require(not facts.reduction_extents and not facts.has_init, "it reduces")
    require(tensors or written_rank(sch, block) == 0, "it writes a tensor, not a scalar")
    require(not is_output(sch, block), "it writes an output")
    require(count_consumers(sch, block) > 0, "nothing reads it")
    with not_applicable_if_refused():
        sch.compute_inline(block)
