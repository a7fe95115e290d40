"""Where to compute what is neither inlined nor tiled."""

from __future__ import annotations

from schedlang.analysis import block_facts, has_trivial_binding, is_output, require
from schedlang.handles import BlockRV
from schedlang.module import module
from schedlang.schedule import Schedule


@module
def random_compute_location(sch: Schedule, block: BlockRV) -> None:
    """Draw the loop of the consumer under which a spatial block (padding, say) is computed.

    ::

        P; for i: C reads P   ->   for i: {P[i..]; C}     or as it was, or inlined
    """
    facts = block_facts(sch, block)
    require(not is_output(sch, block), "it writes an output")
    require(facts.writes == 1 and not facts.has_init, "it is not a plain producer")
    require(not facts.reduction_extents, "it is a reduction")
    require(has_trivial_binding(sch, block), "it is scheduled already")
    require(len(sch.get_consumers(block)) > 0, "nothing reads it")
    loop = sch.sample_compute_location(block, name=f"location:{facts.name}")
    sch.compute_at(block, loop, preserve_unit_loops=True)
