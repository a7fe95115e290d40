"""Draw tiles, grain and lanes of programs without reductions: element-wise, gathers, scans.

Tiling modules leave such blocks as they are, so that finishing alone would give a handful of
programs. Splitting a loop keeps the order of iterations, so every block may be split. Inner parts
of loops whose iterations may run in any order move inwards. In a scan over the elements of rows
several rows then advance together: the next addition does not wait for the last one.
"""

from __future__ import annotations

from schedlang.analysis import block_facts, constant_extent, is_single_child, loop_is_plain
from schedlang.analysis.concurrency import (
    has_independent_iterations,
    is_inside_loops,
    loops_start_at_zero,
    may_run_in_parallel,
)
from schedlang.errors import InstructionError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.chains import draw_chains
from schedlang.modules.cpu.private_copies import draw_private_copies
from schedlang.modules.shared.finish import MIN_LANES, every_block

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
