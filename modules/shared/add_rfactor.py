"""Reductions in two steps (rfactor): the first one is parallel or runs in vector lanes."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import (
    LoopKind,
    block_facts,
    constant_extent,
    has_data_reuse,
    has_trivial_binding,
    is_single_child,
    loop_kinds,
    require,
)
from schedlang.analysis.concurrency import is_regular, loops_start_at_zero
from schedlang.errors import NotApplicable, SpaceError
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.checks import (
    STARTS_LATER,
    check_positive,
    not_applicable_if_refused,
    weigh_multiples,
)
from schedlang.spaces.module import module


def require_serial_reduction(sch: Schedule, block: BlockRV, max_parallel: int) -> int:
    """Raise NotApplicable unless reducing in two steps, or across threads, may pay.

    The conditions are those of MetaSchedule's NeedsRFactorOrCrossThreadReduction: an unscheduled
    reduction, alone in its loops. One that tiling would help qualifies only if it has fewer spatial
    iterations than reduction iterations, and at most ``max_parallel`` of them. Returns the number
    of spatial iterations.
    """
    facts = block_facts(sch, block)
    require(bool(facts.reduction_extents) and facts.has_init, "it is no reduction")
    require(has_trivial_binding(sch, block), "it is scheduled already")
    loops = sch.get_loops(block)
    require(is_regular(sch, block), "the order of its iterations matters")
    require(loops_start_at_zero(sch, block), STARTS_LATER)
    kinds = loop_kinds(sch, loops)
    require(LoopKind.REDUCTION in kinds, "it has no reduction loop")
    require(LoopKind.OPAQUE not in kinds, "a loop is neither spatial nor a reduction")
    require(all(is_single_child(sch, loop) for loop in loops), "other blocks share its loops")
    lengths = {LoopKind.SPATIAL: 1, LoopKind.REDUCTION: 1}
    for loop, kind in zip(loops, kinds, strict=True):
        extent = constant_extent(sch, loop)
        require(extent is not None, "a loop's extent is not constant")
        lengths[kind] *= extent or 1
    spatial, reduced = lengths[LoopKind.SPATIAL], lengths[LoopKind.REDUCTION]
    if facts.writes == 1 and has_data_reuse(sch, block):
        parallel = spatial >= reduced or spatial > max_parallel
        require(not parallel, "its spatial loops are parallel enough")
    require(reduced > 1, "it reduces one element")
    return spatial


def fuse_reduction_loops(sch: Schedule, block: BlockRV) -> LoopRV:
    """Put the reduction loops inside the spatial ones and fuse them; returns the fused loop.

    ::

        for k: for i: for l: C[i]   ->   for i: for kl: C[i]
    """
    loops = sch.get_loops(block)
    kinds = loop_kinds(sch, loops)
    spatial = [loop for loop, kind in zip(loops, kinds, strict=True) if kind == LoopKind.SPATIAL]
    reduction = [loop for loop, kind in zip(loops, kinds, strict=True) if kind != LoopKind.SPATIAL]
    if loops != [*spatial, *reduction]:
        sch.reorder(*spatial, *reduction)
    return sch.fuse(*reduction) if len(reduction) > 1 else reduction[0]


WAYS = ("none", "outer", "inner", "both")


@module(before="multi_level_tiling")
def add_rfactor(
    sch: Schedule,
    block: BlockRV,
    *,
    cores: int = 1,
    jobs_per_core: int = 16,
    max_innermost_factor: int = 64,
    vector_lanes: int = 0,
    ways: Sequence[str] = WAYS,
) -> None:
    """Split a reduction, and compute one part in a block of its own, in which it is spatial.

    ::

        for i: for k: C[i] += A[i, k]
        ->  outer: for i: for k0: for k1: P[i, k0] += A[i, k0 k1];  for i: for k0: C[i] += P[i, k0]
        ->  inner: for i: for k0: for k1: P[i, k1] += A[i, k0 k1];  for i: for k1: C[i] += P[i, k1]
        ->  both:  for i: for k0: for k1: for k2: P[i, k0, k2] += A[i, k0 k1 k2]; and two more steps

    ``none`` leaves the reduction as it is. The modules that finish the program later run ``k0`` of
    ``outer`` on the cores, ``k1`` of ``inner`` in vector lanes, and ``both`` on cores and in lanes.
    ``both`` is an option only if the spatial loops give fewer than ``cores * jobs_per_core``
    iterations. ``ways`` are the options to choose from. The first three are MetaSchedule's
    AddRFactor and Ansor's rule 6 (Ansor, Table 1), under the same conditions: a reduction that
    tiling would help qualifies only if its spatial loops give too few parallel iterations.

    ``max_innermost_factor`` bounds the last part of the split. ``vector_lanes`` (elements of a
    vector; 0: a uniform prior) makes the prior prefer last parts of whole vectors, first parts that
    the cores share evenly, and the options that vectorise.
    """
    _check(cores, jobs_per_core, max_innermost_factor, ways)
    jobs = cores * jobs_per_core
    spatial = require_serial_reduction(sch, block, jobs)
    name = block_facts(sch, block).name
    offered = [way for way in ways if way != "both" or spatial < jobs]
    if not offered:
        raise NotApplicable("its spatial loops are parallel enough")
    way = sch.choose(f"rfactor:{name}", offered, _weights(offered) if vector_lanes else None)
    if way == "none":
        return
    weights = {}
    if vector_lanes and way != "outer":
        weights[-1] = weigh_multiples(vector_lanes, max_innermost_factor)
    if vector_lanes and way == "both":
        weights[0] = weigh_multiples(cores, jobs)
    with not_applicable_if_refused():  # a reducer that TVM does not know, say
        fused = fuse_reduction_loops(sch, block)
        parts = sch.sample_perfect_tile(
            fused,
            3 if way == "both" else 2,
            max_innermost_factor,
            weights=weights or None,
            name=f"rfactor_tile:{name}",
        )
        tiles = sch.split(fused, parts)
        if way == "both":
            partial = sch.rfactor(tiles[-1], -1)
            # Its loops are still i, k0, k1, k2; the lanes stay the last dimension of its result.
            outer = sch.get_loops(partial)[-3]
            sch.rfactor(outer, -2)
        else:
            sch.rfactor(tiles[0 if way == "outer" else 1], -1)


def _weights(ways: Sequence[str]) -> list[float]:
    """Return the prior: options that vectorise weigh four times the others."""
    return [4.0 if way in ("inner", "both") else 1.0 for way in ways]


def _check(cores: int, jobs_per_core: int, max_innermost_factor: int, ways: Sequence[str]) -> None:
    check_positive(
        "add_rfactor",
        cores=cores,
        jobs_per_core=jobs_per_core,
        max_innermost_factor=max_innermost_factor,
    )
    if isinstance(ways, str) or not ways:
        raise SpaceError(f"add_rfactor(ways={ways!r}): it takes a list of some of {WAYS}")
    for way in ways:
        if way not in WAYS:
            raise SpaceError(
                f"add_rfactor(ways={ways!r}): it takes a list of some of {WAYS}, not {way!r}"
            )
