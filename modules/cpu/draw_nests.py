"""Programs without reductions: tiles, grain and lanes are drawn; what only moves data needs less.

Updates of one element follow one another, unless they go in several chains (the sum of a row of a
sparse matrix) or into private copies for each thread (the bins of a histogram). The instructions
for both are below what draws them.
"""

from __future__ import annotations

import math

from schedlang.analysis import (
    BlockMoves,
    block_facts,
    block_moves,
    constant_extent,
    is_single_child,
    loop_is_plain,
    only_moves_data,
    require,
)
from schedlang.analysis.concurrency import (
    has_independent_iterations,
    has_one_chain,
    is_inside_loops,
    loops_start_at_zero,
    may_run_in_parallel,
    updated_elements,
)
from schedlang.errors import InstructionError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import chain_updates, instruction, privatize, rewriting
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import (
    MIN_LANES,
    check_positive,
    complement,
    every_block,
    may_vectorize,
    widest_vector,
)
from schedlang.spaces.module import module

# Longest inner part of a split loop: of a nest, and of a loop alone, which draws nothing else.
_MAX_INNER = 64
_MAX_INNER_ALONE = 1024
# Weight of the inner part 1, which leaves a loop as it is; others weigh 1.
_UNSPLIT = 8.0
# Weights of the number of rows of a scan that advance together.
_ROWS = {1: 2.0, 2: 4.0, 4: 8.0, 8: 8.0}
# What the usual number of parallel iterations and of lanes is multiplied by, and the prior.
_GRAINS = {1.0: 0.55, 0.25: 0.15, 1 / 16: 0.15, 4.0: 0.15}
_LANES = {1.0: 0.6, 0.5: 0.2, 0.25: 0.2}


def only_finishing(sch: Schedule) -> bool:
    """Return whether nothing was drawn and nothing reduces: other modules found nothing to do."""
    if sch.trace.decisions:
        return False
    return not any(block_facts(sch, block).has_init for block in every_block(sch))


def draw_nests(sch: Schedule, cores: int) -> None:
    """Split the loops of each block by drawn factors, with the inner parts innermost if it may be.

    ::

        for i, j: B[i, j] = f(A[i, j])   ->   for i0, j0: for i1, j1: B[..] = f(A[..])
        for i: for j: B[i, j] = B[i, j - 1] + A[i, j]
        ->  for i0: for j0: for i1: for j1: B[..] = B[..] + A[..]

    Scatters may update private copies (``draw_private_copies``), one or more for each core. Sums
    over a loop may have several chains (``draw_chains``).
    """
    for block in every_block(sch):
        mark = sch.mark()
        try:
            _draw_nest(sch, block, cores)
        except InstructionError:  # the block stays as it is
            sch.rollback(mark)


def _draw_nest(sch: Schedule, block: BlockRV, cores: int) -> None:
    if is_inside_loops(sch, block) or not loops_start_at_zero(sch, block):
        return
    name = block_facts(sch, block).name
    private = draw_private_copies(sch, block, name, cores)
    chained = draw_chains(sch, block, name)
    loops = sch.get_loops(block)[: -1 if chained else None]
    outer = [loops.pop(0)] if private else []
    inner: list[LoopRV] = []
    longest = _MAX_INNER if len(loops) > 1 else _MAX_INNER_ALONE
    # The last inner part is innermost as it is; to prove a loop that carries values takes longest.
    free = [_is_free(sch, loop) for loop in loops[:-1]]
    free += [has_independent_iterations(sch, loop) for loop in loops[-1:]]
    for number, loop in enumerate(loops):
        extent = constant_extent(sch, loop)
        if extent is None or not loop_is_plain(sch, loop):
            break
        if extent == 1:
            outer.append(loop)
            continue
        rows = free[number] and not all(free[number + 1 :])
        weights = {-1: _ROWS if rows else {1: _UNSPLIT}}
        factors = sch.sample_perfect_tile(
            loop, 2, longest, weights=weights, name=f"nest:{name}:{number}"
        )
        parts = sch.split(loop, factors)
        outer.append(parts[0])
        (inner if free[number] or number == len(loops) - 1 else outer).append(parts[1])
    if len(inner) > 1 and all(is_single_child(sch, loop) for loop in sch.get_loops(block)):
        sch.reorder(*outer, *inner)


def _is_free(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether a loop's iterations may run in any order."""
    return loop_is_plain(sch, loop) and may_run_in_parallel(sch, loop)


def draw_grain(sch: Schedule, jobs: int) -> int | IntExpr:
    """Draw how many iterations parallel loops have at least; ``jobs`` is the usual number."""
    return _scaled(sch, jobs, 2, _GRAINS, "grain")


def draw_lanes(sch: Schedule, lanes: int) -> int | IntExpr:
    """Draw how many elements a vectorised loop has at most; ``lanes`` is the usual number."""
    return _scaled(sch, lanes, MIN_LANES, _LANES, "lanes")


def _scaled(
    sch: Schedule, usual: int, least: int, scales: dict[float, float], name: str
) -> int | IntExpr:
    options: dict[int, float] = {}
    for scale, prob in scales.items():
        options.setdefault(max(int(usual * scale), min(least, usual)), prob)
    return sch.sample_categorical(list(options), list(options.values()), name=name)


# -- Several chains of updates of one element, as in the sum of a sparse row ----------------------

# Chains; as lanes of a vector, or as additions that do not wait for each other.
_CHAINS = (4, 8, 16)
# A shorter loop of constant length has too few updates for that.
_LEAST_IN_CHAINS = 32


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
    if not loop_is_plain(sch, loop) or (length is not None and length < _LEAST_IN_CHAINS):
        return False
    if sch.choose(f"chains:{name}", ("one", "several")) == "one":
        return False
    chains = sch.sample_categorical(list(_CHAINS), name=f"chains_of:{name}")
    update_in_chains(sch, block, loop, chains)
    return True


# -- Private copies of what a scatter updates, for each thread ------------------------------------

# Copies for each core.
_COPIES = (1, 2, 4)
# Starting and combining copies is worth while from this number of updates of each element on.
_LEAST_IN_COPIES = 4


@rewriting(privatize)
def update_private_copies(sch: Schedule, block: BlockRV, loop: LoopRV) -> None:
    """Let each iteration of the outermost loop update a copy of its own; combine the copies after.

    ::

        for p: for i: H[f(p, i)] += x
        ->  P = 0;  for p: for i: P[p, f(p, i)] += x;  for p: for b: H[b] += P[p, b]

    The block is alone in its loops and does nothing but the update: a sum, or of integers a minimum
    or maximum. Neither the place nor what is added depends on ``H``. The loop may then run in
    parallel, whatever the places are.
    """


def draw_private_copies(sch: Schedule, block: BlockRV, name: str, cores: int) -> bool:
    """Draw whether parts of a scatter update private copies; the parts are the outermost loop.

    Only for updates that no two iterations of the outermost loop may make at the same time.
    """
    loops = sch.get_loops(block)
    elements = updated_elements(sch, block)
    extents = [constant_extent(sch, loop) for loop in loops]
    if elements is None or cores == 1 or not loops or None in extents:
        return False
    if not all(is_single_child(sch, loop) and loop_is_plain(sch, loop) for loop in loops):
        return False
    updates = math.prod(extent or 1 for extent in extents)
    copies = [
        cores * each
        for each in _COPIES
        if (extents[0] or 1) % (cores * each) == 0
        and elements * cores * each * _LEAST_IN_COPIES <= updates
    ]
    if not copies or may_run_in_parallel(sch, loops[0]):
        return False
    if sch.choose(f"copies:{name}", ("shared", "private")) == "shared":
        return False
    parts = sch.sample_categorical(copies, name=f"copies_of:{name}")
    update_private_copies(sch, block, sch.split(loops[0], [parts, None])[0])
    return True


# -- Closed-form schedules of programs that compute nothing and only move data --------------------

SIDES = ("stores", "loads")
_LINE_BYTES = 64
# Tiles of a loop that no better tile divides; a predicate guards the last one.
_UNEVEN = 8
_JOBS_PER_CORE = 8
# Bytes that are read and written while threads are started and waited for, about; from the first on
# they may pay, from the second on they nearly always do.
_MAYBE_THREADS = 2**17
_THREADS = 2**20


@instruction
def move_block(sch: Schedule, block: BlockRV, side: str, jobs: int) -> None:
    """Finish a block that only moves data, for its shapes.

    ::

        for i: for j: B[i, j] = A[j, i]
        ->  parallel i0 j0: for j1 in 16: vectorized i1 in 16: B[..] = A[..]

    A block that reads along another loop than it stores is tiled along both, a cache line each, so
    that lines are used whole. ``side`` is the loop that runs in lanes: ``"stores"`` for the one
    along which elements are stored contiguously, ``"loads"`` for the other. Where the source
    depends on the place, as in a concatenation, the innermost loop is cut at the borders. Outer
    loops are fused and run in parallel until they give ``jobs`` iterations; 0 keeps them serial.
    """
    sch.overlap_last_tiles()
    loops = sch.get_loops(block)
    if not all(_is_simple(sch, loop) for loop in loops):
        return
    moves = block_moves(sch, block)
    inner = 0
    if moves.stored is not None and moves.loaded is not None:
        inner = 2 * _tile(sch, block, loops, moves, side)
    elif moves.stored is not None and moves.sources > 1 and moves.stored in moves.guarded:
        sch.annotate(loops[moves.stored], "pragma_loop_partition_hint", 1)
    if jobs > 0 and not is_inside_loops(sch, block):
        _parallelize(sch, sch.get_loops(block), jobs, inner or 1)


@module(at="root", stage="finish")
def move_data(sch: Schedule, *, cores: int = 1) -> None:
    """Finish a program that only moves data: one choice at most, and nothing is drawn.

    ::

        for i: for j: B[i, j] = A[j, i]
        ->  parallel i0 j0: for j1 in 16: vectorized i1 in 16: B[..] = A[..]

    A transpose chooses the loop that runs in lanes. Other programs of 128 KiB or more choose
    whether they run on ``cores`` threads; smaller ones are serial. Transposes of 128 KiB or more
    get threads.
    """
    check_positive("move_data", cores=cores)
    require(only_moves_data(sch), "it computes")
    blocks = every_block(sch)
    moves = [block_moves(sch, block) for block in blocks]
    moved = sum(one.bytes for one in moves)
    side, threads = SIDES[0], moved >= _MAYBE_THREADS and cores > 1
    if any(one.stored is not None and one.loaded is not None for one in moves):
        side = sch.choose("lanes_along", SIDES, (0.75, 0.25))
    elif threads:
        prob = 0.75 if moved >= _THREADS else 0.25
        threads = sch.choose("threads", (True, False), (prob, complement(prob)))
    jobs = cores * _JOBS_PER_CORE if threads else 0
    for block in blocks:
        move_block(sch, block, side, jobs)


def _is_simple(sch: Schedule, loop: LoopRV) -> bool:
    return loop_is_plain(sch, loop) and constant_extent(sch, loop) is not None


def _tile(sch: Schedule, block: BlockRV, loops: list[LoopRV], moves: BlockMoves, side: str) -> bool:
    """Tile the loops that the block stores and loads along; return whether that was possible."""
    assert moves.stored is not None and moves.loaded is not None
    pair = [loops[moves.stored], loops[moves.loaded]]
    if not all(may_vectorize(sch, block, loop) for loop in pair):
        return False
    outer, inner = [], []
    for loop in pair:
        extent = constant_extent(sch, loop) or 1
        size = widest_vector(extent, _LINE_BYTES // moves.element_bytes)
        uneven = size < min(_UNEVEN, extent)
        first, second = sch.split(loop, [None, _UNEVEN if uneven else size])
        if uneven:
            sch.annotate(first, "pragma_loop_partition_hint", 1)
        outer.append(first)
        inner.append(second)
    others = [loop for loop in loops if loop not in pair]
    stored, loaded = inner
    lanes, rows = (stored, loaded) if side == SIDES[0] else (loaded, stored)
    sch.reorder(*others, outer[1], outer[0], rows, lanes)
    sch.vectorize(lanes)
    return True


def _parallelize(sch: Schedule, loops: list[LoopRV], jobs: int, inner: int) -> None:
    """Run outer loops in parallel; the ``inner`` innermost ones stay as they are."""
    fused: list[LoopRV] = []
    extents: list[int] = []
    for loop in loops[: len(loops) - inner]:
        if not loop_is_plain(sch, loop):  # it is cut at its end
            break
        fused.append(loop)
        extents.append(constant_extent(sch, loop) or 1)
        if math.prod(extents) >= jobs or not is_single_child(sch, loop):
            break
    if math.prod(extents) > 1:
        sch.parallel(sch.fuse(*fused) if len(fused) > 1 else fused[0])
    elif inner == 1 and loop_is_plain(sch, loops[-1]):
        extent = constant_extent(sch, loops[-1]) or 1
        parts = widest_vector(extent, jobs)
        if parts > 1:
            sch.parallel(sch.split(loops[-1], [parts, None])[0])
