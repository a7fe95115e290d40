"""Multi-level tiling with an optional write cache (MetaSchedule, Figure 4; Ansor, Table 1)."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import (
    BlockFacts,
    LoopKind,
    block_facts,
    has_data_reuse,
    has_trivial_binding,
    loop_kind,
    require,
)
from schedlang.analysis.concurrency import adds_up, is_only_writer, is_regular, loops_start_at_zero
from schedlang.errors import SpaceError
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import STARTS_LATER, not_applicable_if_refused, weigh_multiples
from schedlang.spaces.module import module


@module
def multi_level_tiling(
    sch: Schedule,
    block: BlockRV,
    *,
    structure: str | Sequence[str] = "SSRSRS",
    max_innermost_factor: int = 64,
    write_levels: Sequence[int] = (1, 2),
    vector_lanes: int = 0,
) -> None:
    """Tile every spatial loop at each S and every reduction loop at each R of ``structure``.

    ::

        for i, j, k: C   ->   for i0, j0: for i1, j1: for k0: for i2, j2: for k1: for i3, j3: C

    A list of structures is a choice. ``write_levels`` are the spatial tile levels (counted from 1,
    over S only) under which the result may be copied out of a write cache, or the only element-wise
    consumer computed; having no cache is always an option. ``vector_lanes`` (elements of a vector;
    0: a uniform prior) makes the prior prefer innermost factors of the last spatial loop that fill
    whole vectors.
    """
    facts = require_tileable(sch, block)
    may_cache = may_collect(sch, block)
    structures = [structure] if isinstance(structure, str) else list(structure)
    for pattern in structures:
        if not pattern or set(pattern) - {"S", "R"}:
            raise SpaceError(
                f"multi_level_tiling(structure={structure!r}): a tile structure is a string of S "
                f"and R, not {pattern!r}"
            )
    pattern = structures[0]
    if len(structures) > 1:
        pattern = sch.choose(f"structure:{facts.name}", structures)
    with not_applicable_if_refused():
        levels = _tile(sch, block, facts.name, pattern, max_innermost_factor, vector_lanes)
        if may_cache:
            _reuse_writes(sch, block, facts.name, pattern, levels, write_levels)


def require_tileable(sch: Schedule, block: BlockRV) -> BlockFacts:
    """Raise NotApplicable unless tiling the block's loops may pay; return its facts.

    It is an unscheduled reduction with one output, in which a read leaves out a spatial variable
    (MetaSchedule's NeedsMultiLevelTiling), and its iterations may run in any order.
    """
    facts = block_facts(sch, block)
    require(bool(facts.reduction_extents) and facts.writes == 1, "it is no single-output reduction")
    require(has_trivial_binding(sch, block), "it is scheduled already")
    require(has_data_reuse(sch, block), "tiling it reuses no data")
    regular = is_regular(sch, block) or adds_up(sch, block)
    require(regular, "the order of its iterations matters")
    require(loops_start_at_zero(sch, block), STARTS_LATER)
    return facts


def may_collect(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the block may write to a cache that is copied when it is complete.

    It sets the initial value itself, and nothing else writes the result.
    """
    return is_regular(sch, block) and is_only_writer(sch, block)


def _tile(
    sch: Schedule, block: BlockRV, name: str, pattern: str, bound: int, lanes: int
) -> list[list[LoopRV]]:
    loops = sch.get_loops(block)
    kinds = [loop_kind(sch, loop) for loop in loops]
    levels: list[list[LoopRV]] = [[] for _ in pattern]
    last_spatial = max((k for k, kind in enumerate(kinds) if kind == LoopKind.SPATIAL), default=-1)
    for position, (loop, kind) in enumerate(zip(loops, kinds, strict=True)):
        places = [k for k, letter in enumerate(pattern) if letter == kind]
        require(bool(places), f"no level of {pattern} takes {kind} loops")
        if len(places) == 1:
            levels[places[0]].append(loop)
            continue
        variable = str(sch.get(loop).loop_var.name)
        weights = None
        if lanes and position == last_spatial:
            weights = {-1: weigh_multiples(lanes, bound)}
        factors = sch.sample_perfect_tile(
            loop, len(places), bound, weights=weights, name=f"tile:{name}:{variable}"
        )
        for place, tile in zip(places, sch.split(loop, factors), strict=True):
            levels[place].append(tile)
    sch.reorder(*(loop for level in levels for loop in level))
    return levels


def _reuse_writes(
    sch: Schedule,
    block: BlockRV,
    name: str,
    pattern: str,
    levels: list[list[LoopRV]],
    write_levels: Sequence[int],
) -> None:
    spatial = [level for letter, level in zip(pattern, levels, strict=True) if letter == "S"]
    options = ["none", *(str(level) for level in write_levels if 0 < level < len(spatial))]
    taken = sch.choose(f"write_cache:{name}", options)
    if taken != "none":
        consume_below(sch, block, spatial[int(taken) - 1][-1])


def consume_below(sch: Schedule, block: BlockRV, loop: LoopRV) -> BlockRV:
    """Compute the element-wise consumer of a block right after it, under one of its loops.

    ::

        for i0: {for i1: C};  for i: D = C * 2   ->   for i0: {for i1: C;  for i1: D = C * 2}

    A block without such a consumer writes to a cache instead, and the copy out of the cache moves.
    Returns the block that moved.
    """
    consumer = elementwise_consumer(sch, block)
    if consumer is None:
        consumer = sch.cache_write(block, 0, "global")
    sch.reverse_compute_at(consumer, loop, preserve_unit_loops=True)
    return consumer


def elementwise_consumer(sch: Schedule, block: BlockRV) -> BlockRV | None:
    """Return the only consumer if it reduces nothing and has the same spatial extents, else None.

    Extents of 1 are ignored.
    """
    consumers = sch.get_consumers(block)
    if len(consumers) != 1:
        return None
    theirs, ours = block_facts(sch, consumers[0]), block_facts(sch, block)
    same = [e for e in theirs.spatial_extents if e > 1] == [
        e for e in ours.spatial_extents if e > 1
    ]
    return consumers[0] if same and not theirs.reduction_extents else None
