"""Several chains of updates of one element, as in the sum of a row of a sparse matrix."""

from __future__ import annotations

from schedlang.analysis import constant_extent, loop_is_plain
from schedlang.analysis.concurrency import has_one_chain, updated_elements
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import chain_updates, rewriting
from schedlang.language.schedule import Schedule

# Chains; as lanes of a vector, or as additions that do not wait for each other.
_CHAINS = (4, 8, 16)
# A shorter loop of constant length has too few updates for that.
_LEAST_UPDATES = 32


@rewriting(chain_updates)
def update_in_chains(sch: Schedule, block: BlockRV, loop: LoopRV, chains: int | IntExpr) -> None:
    """Let copies of the element that a loop updates be updated in turns; combine them after.

    ::

        for k: Y[i] += x(k)
        ->  P = 0;  for o: for c: P[c] += x(o * chains + c);  for c: Y[i] += P[c]

    The loop is the innermost one, and the block is alone in it and does nothing but the update: a
    sum, or of integers a minimum or maximum. The loop's length may be any expression; iterations
    behind the last whole turn update the element itself.
    """


def draw_chains(sch: Schedule, block: BlockRV, name: str) -> bool:
    """Draw in how many chains the innermost loop updates an element; whether it is several.

    The innermost loop is then the one over the chains.
    """
    if updated_elements(sch, block) is None or not has_one_chain(sch, block):
        return False
    loop = sch.get_loops(block)[-1]
    length = constant_extent(sch, loop)
    if not loop_is_plain(sch, loop) or (length is not None and length < _LEAST_UPDATES):
        return False
    if sch.choose(f"chains:{name}", ("one", "several")) == "one":
        return False
    chains = sch.sample_categorical(list(_CHAINS), name=f"chains_of:{name}")
    update_in_chains(sch, block, loop, chains)
    return True
