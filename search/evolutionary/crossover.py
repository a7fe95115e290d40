"""Block-based crossover: some blocks tiled as in one trace, the others as in another (Ansor, 5.1).

Decisions about one block depend on each other and are inherited together; those about different
blocks mostly do not. Parents are members of one sketch, so that they have the same blocks.
"""

from __future__ import annotations

import random
from typing import Any

from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.kinds import Choice
from schedlang.language.schedule import Trace
from schedlang.search.proposal_kernel import movable

SketchKey = tuple[tuple[str, str, Any], ...]
"""Kind, site and option taken of each instruction: what the members of a sketch share."""


def cross(one: Trace, other: Trace, rng: random.Random) -> Trace | None:
    """Take some of the blocks of ``other`` into ``one``; ``None`` if there is nothing to cross.

    Needs two traces of one sketch that differ in the decisions about at least two blocks. Decisions
    of the child may not fit together: its replay repairs them.
    """
    if sketch_key(one) != sketch_key(other):
        return None
    theirs = other.decisions
    ours = one.decisions
    different = [
        [site for site in sites if ours[site] != theirs.get(site, ours[site])]
        for sites in draws_by_block(one).values()
    ]
    different = [sites for sites in different if sites]
    if len(different) < 2:
        return None
    taken = rng.sample(different, rng.randint(1, len(different) - 1))
    return one.with_decisions({site: theirs[site] for sites in taken for site in sites})


def sketch_key(trace: Trace) -> SketchKey:
    """Return what tells the sketch of a trace from others."""
    return tuple(
        (i.kind.name, i.site, i.decision if isinstance(i.kind, Choice) else None)
        for i in trace.instructions
    )


def draws_by_block(trace: Trace) -> dict[int, list[str]]:
    """Group the sites of draws by the block that they are about.

    A draw is about the block that its arguments come from; a cache of a block, and the loops around
    it, belong to that block. Draws about no block form one group.
    """
    owner: dict[int, int] = {}
    groups: dict[int, list[str]] = {}
    draws, _ = movable(trace)
    open_sites = {instruction.site for instruction in draws}
    for instruction in trace.instructions:
        known = [owner[h.index] for h in instruction.inputs() if h.index in owner]
        for handle in instruction.outputs:
            if known:
                owner[handle.index] = known[0]
            elif isinstance(handle, (BlockRV, LoopRV)):
                owner[handle.index] = handle.index
        if instruction.site in open_sites:
            groups.setdefault(known[0] if known else -1, []).append(instruction.site)
    return groups
