"""Reductions in two steps (rfactor), and einsums padded to extents that good tiles divide."""

from __future__ import annotations

from collections.abc import Sequence

from schedlang.analysis import (
    LoopKind,
    block_facts,
    buffer_shape,
    common_depth,
    constant_extent,
    has_data_reuse,
    has_trivial_binding,
    is_single_child,
    loop_kind,
    loop_kinds,
    require,
    stores_contiguously,
)
from schedlang.analysis.concurrency import is_regular, loops_start_at_zero
from schedlang.analysis.intrinsics import find_einsum
from schedlang.errors import NotApplicable, SpaceError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import (
    STARTS_LATER,
    check_positive,
    not_applicable_if_refused,
    weigh_multiples,
)
from schedlang.spaces.module import module

# -- Reductions in two steps (rfactor): the first one is parallel or runs in vector lanes ---------


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
    _check_ways(cores, jobs_per_core, max_innermost_factor, ways)
    jobs = cores * jobs_per_core
    spatial = require_serial_reduction(sch, block, jobs)
    name = block_facts(sch, block).name
    offered = [way for way in ways if way != "both" or spatial < jobs]
    if not offered:
        raise NotApplicable("its spatial loops are parallel enough")
    way = sch.choose(f"rfactor:{name}", offered, _way_weights(offered) if vector_lanes else None)
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


def _way_weights(ways: Sequence[str]) -> list[float]:
    """Return the prior: options that vectorise weigh four times the others."""
    return [4.0 if way in ("inner", "both") else 1.0 for way in ways]


def _check_ways(
    cores: int, jobs_per_core: int, max_innermost_factor: int, ways: Sequence[str]
) -> None:
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


# -- Pad extents of matrix products that no good tile divides, and place the padded result --------

# A loop has good tiles if one of its divisors lies in this range: this many rows of accumulators
# keep a core busy and fit into its registers.
_FEW_ROWS, _MANY_ROWS = 4, 14
# Prior probability of not padding a poor extent: of the result, where code for CPUs computes tiles
# that overlap, at full speed; and of a sum, where an instruction needs whole tiles.
_UNPADDED, _UNPADDED_SUM = 0.5, 0.05
# Exponent of the prior: padding that adds a tenth is half as likely as padding that adds nothing.
_WASTE_PENALTY = 8


@instruction
def pad_to_multiples(sch: Schedule, block: BlockRV, multiples: list[int | IntExpr]) -> None:
    """Round each extent of an einsum up to a multiple; operands are read with zeros around them.

    ::

        for i in 127, j in 127, k: C[i, j] += A[i, k] * B[k, j]
        ->  B_pad = B with zeros;  for i in 128, j in 128, k: C_pad[i, j] += A?[i, k] * B_pad[k, j];
            C = C_pad without the rest

    An operand that grows in its last dimension is copied; otherwise its vectors would not be
    contiguous, or would need masks. Other operands are read in place: ``A?`` is 0 outside ``A``.
    Once the tile is unrolled, only rows that may be outside are tested.
    """
    if all(int(multiple) == 1 for multiple in multiples):
        return
    before = {block_facts(sch, producer).name for producer in sch.get_producers(block)}
    sch.pad_einsum(block, multiples)
    for producer in sch.get_producers(block):
        if block_facts(sch, producer).name in before:
            continue
        padded = block_facts(sch, producer).spatial_extents
        if padded[-1] == buffer_shape(sch, producer, "read", 0)[-1]:
            sch.compute_inline(producer)


@module(before="multi_level_tiling")
def pad_einsum(
    sch: Schedule,
    block: BlockRV,
    *,
    lanes: int = 8,
    vectors: Sequence[int] = (1, 2, 3, 4),
    rows: Sequence[int] = (4, 6, 8, 12),
    terms: Sequence[int] = (),
    max_waste: float = 0.25,
) -> None:
    """Pad the poor extents of a matrix product (or another einsum) to multiples of good tiles.

    ::

        for i in 127, j in 127, k: C  ->  for i in 128, j in 128, k: C_pad; C = part of C_pad

    Use it before tiling. The extent of the result's last dimension is poor if it is not a multiple
    of ``lanes``; it is rounded up to a multiple of ``lanes`` times one of ``vectors``. Another
    spatial extent is poor if it has no divisor from 4 to 14; it is rounded up to a multiple of one
    of ``rows``. A reduced extent is rounded up to a multiple of one of ``terms``, if any are given
    (an instruction that sums 4 products at a time needs multiples of 4). The multiple of each poor
    extent is drawn; 1, no padding, is always possible, and multiples that add more than
    ``max_waste`` (a fraction of the extent) are excluded.

    In contrast to a predicated split, the inner loops run without tests and in whole vectors on any
    machine, at the price of copying the operand that grows in its last dimension, and the result.
    Both copies are blocks: ``random_compute_location`` places the first, and
    ``place_padded_result`` the second.
    """
    _check_padding(lanes, vectors, rows, terms, max_waste)
    require(has_trivial_binding(sch, block), "it is scheduled already")
    einsum = find_einsum(sch, block)
    require(einsum is not None, "it is no sum of products")
    assert einsum is not None
    require(has_data_reuse(sch, block), "no data are used twice")
    options: list[list[int]] = []
    for position, extent in enumerate(einsum.extents):
        wanted: Sequence[int] = ()
        if position not in einsum.paddable:
            pass
        elif position in einsum.reduced:
            wanted = terms if all(extent % term for term in terms) else ()
        elif position == einsum.result[-1]:
            wanted = [lanes * count for count in vectors] if extent % lanes else ()
        else:
            wanted = rows if _is_poor(extent) else ()
        limit = (1 + max_waste) * extent
        options.append([1, *(m for m in wanted if m > 1 and _rounded(extent, m) <= limit)])
    require(any(len(multiples) > 1 for multiples in options), "no extent is better padded")
    name = block_facts(sch, block).name
    drawn: list[int | IntExpr] = []
    for position, (loop, extent, multiples) in enumerate(
        zip(sch.get_loops(block), einsum.extents, options, strict=True)
    ):
        if len(multiples) == 1:
            drawn.append(1)
            continue
        left = _UNPADDED_SUM if position in einsum.reduced else _UNPADDED
        probs = _prior(extent, multiples, left)
        site = f"pad:{name}:{sch.get(loop).loop_var.name}"
        drawn.append(sch.sample_categorical(multiples, probs, name=site))
    with not_applicable_if_refused():
        pad_to_multiples(sch, block, drawn)


def _rounded(extent: int, multiple: int) -> int:
    return -(-extent // multiple) * multiple


def _prior(extent: int, multiples: list[int], left: float) -> list[float]:
    """Return the probabilities of the multiples; the first one, 1, is no padding: ``left``."""
    weights = [(extent / _rounded(extent, m)) ** _WASTE_PENALTY for m in multiples[1:]]
    scale = (1 - left) / sum(weights)
    return [left, *(weight * scale for weight in weights)]


def _is_poor(extent: int) -> bool:
    return all(extent % tile for tile in range(_FEW_ROWS, _MANY_ROWS + 1))


def _check_padding(
    lanes: int,
    vectors: Sequence[int],
    rows: Sequence[int],
    terms: Sequence[int],
    max_waste: float,
) -> None:
    check_positive("pad_einsum", lanes=lanes)
    named = {"vectors": vectors, "rows": rows, "terms": terms}
    for name, values in named.items():
        if any(not isinstance(value, int) or value < 1 for value in values):
            raise SpaceError(f"pad_einsum({name}={values!r}): give integers of at least 1")
        if len(set(values)) < len(values):
            raise SpaceError(f"pad_einsum({name}={values!r}): give each integer once")
    if not 0 <= max_waste <= 1:
        raise SpaceError(
            f"pad_einsum(max_waste={max_waste}): give a fraction of the extent, 0 to 1"
        )


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
    weights = [1.0, *_loop_weights(sch, producers[0], loops)]
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


def _loop_weights(sch: Schedule, block: BlockRV, loops: list[LoopRV]) -> list[float]:
    """Return a weight for each loop: larger until a loop runs along the rows of the result."""
    weights: list[float] = []
    whole = True
    for loop in loops:
        whole = whole and not stores_contiguously(sch, block, loop)
        weights.append(_WHOLE_ROWS if whole else 1.0)
    return weights
