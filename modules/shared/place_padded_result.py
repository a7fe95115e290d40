"""The location at which the valid part of a padded result is copied out."""

from __future__ import annotations

from schedlang.analysis import (
    LoopKind,
    block_facts,
    buffer_shape,
    common_depth,
    is_single_child,
    loop_kind,
    require,
    stores_contiguously,
)
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import not_applicable_if_refused
from schedlang.spaces.module import module

_AT_ROOT = -1
# Weight of a loop that leaves rows whole; under others, rows are copied in pieces with tests.
_WHOLE_ROWS = 8.0


@instruction
def copy_out(sch: Schedule, block: BlockRV, producer: BlockRV, place: int | IntExpr) -> None:
    """Move a consumer under loop number ``place`` of its producer; -1 leaves it where it is.

    ::

        for i0: for j0: P;  for i, j: C reads P   ->   for i0: {for j0: P;  for i1, j: C reads P}
    """
    if place >= 0:
        sch.reverse_compute_at(block, sch.get_loops(producer)[int(place)])


@module
def place_padded_result(sch: Schedule, block: BlockRV) -> None:
    """Draw the loop of a padded computation under which its result is copied out.

    ::

        for i0: for j0: C_pad[tile];  for i, j: C = C_pad
        ->  for i0: {for j0: C_pad[tile];  for i1, j: C = C_pad}      or as it was, or further in

    Use it after tiling the block that ``pad_einsum`` padded. Results that are copied out soon are
    still in the fastest cache and need no parallel loop of their own. The prior prefers loops that
    leave the rows whole.
    """
    facts = block_facts(sch, block)
    require(not facts.reduction_extents and not facts.has_init, "it reduces")
    require(facts.reads == 1 and facts.writes == 1 and not facts.operations, "it is no copy")
    stored, padded = buffer_shape(sch, block, "write", 0), buffer_shape(sch, block, "read", 0)
    larger = len(stored) == len(padded) and all(a <= b for a, b in zip(stored, padded, strict=True))
    require(larger and stored != padded, "it does not copy a part of a padded buffer")
    producers = sch.get_producers(block)
    require(len(producers) == 1, "nothing computes what it copies")
    require(common_depth(sch, [block, producers[0]]) == 0, "it is placed already")
    loops = _shared_spatial(sch, producers[0])
    candidates = [_AT_ROOT, *range(len(loops))]
    weights = [1.0, *_weights(sch, producers[0], loops)]
    place = sch.sample_categorical(candidates, weights, name=f"copy_out:{facts.name}")
    with not_applicable_if_refused():
        copy_out(sch, block, producers[0], place)


def _shared_spatial(sch: Schedule, block: BlockRV) -> list[LoopRV]:
    """Return the spatial loops around a block, without those of a cache's own tile."""
    loops: list[LoopRV] = []
    shared = 0
    for loop in sch.get_loops(block):
        if loop_kind(sch, loop) != LoopKind.SPATIAL:
            break
        loops.append(loop)
        if not is_single_child(sch, loop):
            shared = len(loops)
    return loops[:shared] if shared else loops


def _weights(sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[float]:
    """Return a weight for each loop: larger until a loop runs along the rows of the result."""
    weights: list[float] = []
    whole = True
    for loop in loops:
        whole = whole and not stores_contiguously(sch, block, loop)
        weights.append(_WHOLE_ROWS if whole else 1.0)
    return weights
