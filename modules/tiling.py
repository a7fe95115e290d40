"""Tiles: of several levels, of the shape of an intrinsic, and operands in the order of tiles."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import (
    BlockFacts,
    LoopKind,
    block_facts,
    constant_extent,
    has_data_reuse,
    has_trivial_binding,
    layout_free_buffers,
    loop_kind,
    parameter_names,
    reading_blocks,
    require,
    stores_contiguously,
    suggested_layout,
)
from schedlang.analysis.concurrency import adds_up, is_only_writer, is_regular, loops_start_at_zero
from schedlang.analysis.intrinsics import intrinsic_axes
from schedlang.errors import InstructionError, NotApplicable, SpaceError
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import (
    STARTS_LATER,
    not_applicable_if_refused,
    parallelize_outer,
    weigh_multiples,
)
from schedlang.spaces.module import Module, module

# -- Several levels, with an optional write cache (MetaSchedule, Figure 4; Ansor, Table 1) --------


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


# -- Tile a block to the shape of a tensor intrinsic (MetaSchedule, 3.2 and Figure 5) -------------


@module(before="multi_level_tiling")
def tensorize_with(
    sch: Schedule,
    block: BlockRV,
    *,
    intrinsic: str,
    tiling: Module | None = multi_level_tiling,
    max_jobs: int = 32,
) -> None:
    """Compute the innermost part of a block with a tensor intrinsic, and tile the remaining loops.

    ::

        for i, j, k: C  ->  parallel i0, j0: {init; for k0: for i1, j1: for k1: intrinsic(C, A, B)}

    ``intrinsic`` is a name registered with TVM or by ``define_intrinsic``. Its spatial loops are
    matched with the block's last spatial loops, its reduction loops with the last reduction loops;
    their extents must divide the block's. ``tiling`` is a module that tiles the resulting block of
    calls; None leaves its loops as they are. Then outer loops are fused until they give
    ``max_jobs`` iterations, and parallelised, which TVM refuses after the initial value is set
    apart; 0 leaves them serial.
    """
    if max_jobs < 0:
        raise SpaceError(f"tensorize_with(max_jobs={max_jobs}): give 0 or more")
    if tiling is not None and not isinstance(tiling, Module):
        raise SpaceError(f"tensorize_with(tiling={tiling!r}): give a module, or None for no tiling")
    try:
        axes = intrinsic_axes(intrinsic)
    except ValueError as error:
        raise SpaceError(f"tensorize_with(intrinsic={intrinsic!r}): {error}") from None
    require(has_trivial_binding(sch, block), "it is scheduled already")
    name = block_facts(sch, block).name
    outer, inner = _split_to_shape(sch, block, axes)
    sch.reorder(*outer, *inner)
    calls = sch.blockize(inner[0])
    if tiling is not None:
        tiling(sch, calls)
    if max_jobs:
        parallelize_outer(sch, calls, max_jobs)
    _set_apart_init(sch, calls)
    try:
        sch.tensorize(calls, intrinsic)
    except InstructionError as error:
        raise NotApplicable(f"{name} is not what {intrinsic} computes: {error.reason}") from error


def _split_to_shape(
    sch: Schedule, block: BlockRV, axes: tuple[tuple[str, int], ...]
) -> tuple[list[LoopRV], list[LoopRV]]:
    """Return the remaining loops, and the intrinsic's own loops in its order."""
    outer = sch.get_loops(block)
    kinds = [loop_kind(sch, loop) for loop in outer]
    places = list(range(len(outer)))
    inner: list[LoopRV] = []
    for kind, extent in reversed(axes):
        fitting = [place for place in places if kinds[place] == kind]
        require(bool(fitting), "it has fewer loops than the intrinsic")
        place = fitting[-1]
        places.remove(place)
        have = constant_extent(sch, outer[place])
        divides = have is not None and have % extent == 0
        require(divides, f"a loop of {have} iterations is no multiple of the intrinsic's {extent}")
        outer[place], part = sch.split(outer[place], [None, extent])
        inner.insert(0, part)
    return outer, inner


def _set_apart_init(sch: Schedule, calls: BlockRV) -> None:
    steps = [x for x in sch.get_loops(calls) if loop_kind(sch, x) == LoopKind.REDUCTION]
    if not steps or not block_facts(sch, calls).has_init:
        return
    init = sch.decompose_reduction(calls, steps[0])
    for fill in sch.get_child_blocks(init):
        lanes = sch.get_loops(fill)[-1:]
        if lanes and stores_contiguously(sch, fill, lanes[0]):
            sch.vectorize(lanes[0])


# -- Store constant operands in the order in which the tiles read them ----------------------------

# Annotation by which TVM's Relax passes find the copy and move it out of the function.
_PREPROCESSING = "meta_schedule.layout_rewrite_preproc"


@instruction
def rewrite_layouts(sch: Schedule, buffers: Sequence[str]) -> None:
    """Copy each buffer into the order in which the loops of its reader access it.

    ::

        for j0: for k: for j1: C reads B[k, j0 * 16 + j1]
        ->  for x0, k, x1: B_global[x0, k, x1] = B[k, x0 * 16 + x1];
            for j0: for k: for j1: C reads B_global[j0, k, j1]

    A buffer is left as it is if several blocks read it, if one block reads it at several places, if
    the reader accesses it in order already, or if it reads overlapping windows.
    """
    for buffer in buffers:
        names = reading_blocks(sch, buffer)
        if len(names) != 1:
            continue
        reader = sch.get_block(names[0])
        layout = suggested_layout(sch, reader, buffer)
        if layout is None:
            continue
        copy = sch.cache_read(reader, buffer, "global")
        sch.annotate(copy, _PREPROCESSING, True)
        # The copy writes its result in order, too.
        sch.transform_block_layout(copy, layout)
        sch.transform_layout(copy, ("write", 0), layout)


@module(at="root")
def layout_rewrite(sch: Schedule, *, buffers: Sequence[str] = ()) -> None:
    """Repack constant operands to the structure of the tiles (Ansor, 4.2).

    ::

        for j0: for k: for j1: C reads B[k, j0 * 16 + j1]
        ->  B_global[j0, k, j1] = B[k, j0 * 16 + j1];  for j0: for k: for j1: C reads B_global

    ``buffers`` are names of parameters; by default those that the program's attribute
    ``layout_free_buffers`` lists by number (Relax lists weights there). Use it after tiling and
    before ``parallel_vectorize_unroll``, which finishes the copy as well. Each replay derives the
    layouts from its tile sizes. A measurement contains the copy. The copying block is annotated as
    in MetaSchedule's RewriteLayout, so that Relax's SplitLayoutRewritePreproc and constant folding
    remove it from the function.
    """
    if isinstance(buffers, str):
        raise SpaceError(f"layout_rewrite(buffers={buffers!r}): it takes a list of names")
    known = parameter_names(sch)
    for name in buffers:
        if name not in known:
            raise SpaceError(
                f"layout_rewrite(buffers={list(buffers)!r}): the program has no parameter "
                f"{name!r}; it has {', '.join(known)}"
            )
    chosen = list(buffers) or list(layout_free_buffers(sch))
    require(bool(chosen), "no buffer may change its layout")
    rewrite_layouts(sch, chosen)
