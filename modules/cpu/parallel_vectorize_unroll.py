"""Finish a CPU program: parallel outer loops, vectorised inner loops, drawn unrolling.

Starting threads takes one to two microseconds. Small programs therefore choose which of their loop
nests get threads.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from schedlang.analysis.concurrency import nest_work
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.draw_nests import draw_grain, draw_lanes, draw_nests, only_finishing
from schedlang.modules.cpu.metaschedule_finish import finish_like_metaschedule, fuse_and_finish
from schedlang.modules.shared.checks import check_prob, complement
from schedlang.modules.shared.finish import (
    annotate_unroll,
    decompose_reduction_block,
    every_block,
    parallelize,
    vectorize_inner,
)
from schedlang.spaces.module import module

WAYS = ("along_stores", "metaschedule")
SERIAL = -1
# In the unit of ``loop_work``. A nest of less than SMALL_WORK takes less time than starting threads
# does; one of EVEN_WORK takes as long on one core as with threads.
SMALL_WORK = 2**11
EVEN_WORK = 2**16

_METASCHEDULE_LANES = 64


@instruction
def finish_blocks(
    sch: Schedule, max_jobs: int | IntExpr, max_lanes: int | IntExpr, max_step: int | IntExpr
) -> None:
    """Finish every block that the program has at this point.

    ::

        for i: for j: for k: C   ->   parallel i: {init; for k: vectorized j: C}  # unrolled

    It is one instruction, because the blocks depend on earlier decisions: a producer that is
    inlined at one compute location is a block of its own at another. Loops whose iterations depend
    on each other, as in a scan, stay as they are.
    """
    _finish_along_stores(sch, max_jobs, int(max_lanes), max_step, 0)
    sch.overlap_last_tiles()


@instruction
def finish_by_work(
    sch: Schedule,
    way: str,
    max_jobs: int | IntExpr,
    max_lanes: int | IntExpr,
    max_step: int | IntExpr,
    parallel_from: int | IntExpr,
) -> None:
    """Finish every block; only nests that do at least ``parallel_from`` work get threads.

    ::

        for i: A;  for i: for j: B   ->   for i: A;  parallel i: vectorized j: B

    Work is counted in operations and accesses to elements (``schedlang.analysis.loop_work``); -1
    keeps every nest serial. ``way`` is ``"along_stores"``, to finish as ``finish_blocks``, or
    ``"metaschedule"``, as ``finish_like_metaschedule``.
    """
    if way not in WAYS:
        raise SpaceError(f"finish_by_work(way={way!r}): it takes one of {WAYS}")
    finish = _finish_along_stores if way == WAYS[0] else fuse_and_finish
    jobs = max_jobs if parallel_from >= 0 else 0
    finish(sch, jobs, int(max_lanes), max_step, parallel_from)
    sch.overlap_last_tiles()


def _finish_along_stores(
    sch: Schedule,
    max_jobs: int | IntExpr,
    max_lanes: int,
    max_step: int | IntExpr,
    parallel_from: int | IntExpr,
) -> None:
    blocks = every_block(sch)
    if max_jobs > 0:
        for block in blocks:
            parallelize(sch, block, max_jobs, parallel_from)
    for block in blocks:
        vectorize_inner(sch, block, max_lanes)
        annotate_unroll(sch, block, max_step)
    for block in blocks:
        decompose_reduction_block(sch, block, max_lanes)


@module(at="root", stage="finish")
def parallel_vectorize_unroll(
    sch: Schedule,
    *,
    cores: int = 1,
    jobs_per_core: int = 16,
    max_lanes: int = 64,
    unroll_steps: Sequence[int] = (0, 16, 64, 512),
    prob: float = 1.0,
    large_work: int = 0,
) -> None:
    """Finish every block of the program; the unrolling depth is drawn.

    ::

        for i: for j: for k: C   ->   parallel i: {init; for k: vectorized j: C}  # unroll drawn

    ``cores`` times ``jobs_per_core`` bounds the parallel iterations, ``max_lanes`` the elements of
    a vectorised loop. With ``prob`` below 1, how to finish is a choice: with this probability by
    ``finish_blocks``, else by ``finish_like_metaschedule`` with 64 lanes, which fuses inner loops
    first. Where no other module drew anything and nothing reduces, as in element-wise programs and
    scans, tiles of each block (``draw_nests``), the number of parallel iterations and that of lanes
    are then drawn too.

    A program that does less than ``large_work`` before scheduling (operations and accesses to
    elements) is finished by ``finish_by_work``: nests for which starting threads never pays get
    none, and a draw says which of the others do. 0 gives every nest threads.
    """
    check_prob("parallel_vectorize_unroll", prob)
    jobs: int | IntExpr = cores * jobs_per_core
    drawn = prob < 1 and only_finishing(sch)
    if drawn:
        draw_nests(sch, cores)
        jobs = draw_grain(sch, cores * jobs_per_core)
    steps = sch.sample_categorical(unroll_steps, name="unroll")
    way = WAYS[0] if prob == 1 else sch.choose("finish", WAYS, (prob, complement(prob)))
    lanes: int | IntExpr = _METASCHEDULE_LANES
    if way == WAYS[0]:
        lanes = draw_lanes(sch, max_lanes) if drawn else max_lanes
    if sum(nest_work(sch, scheduled=False)) < large_work:
        finish_by_work(sch, way, jobs, lanes, steps, _draw_parallel_from(sch))
    elif way == WAYS[0]:
        finish_blocks(sch, jobs, lanes, steps)
    else:
        finish_like_metaschedule(sch, jobs, _METASCHEDULE_LANES, steps)


def _draw_parallel_from(sch: Schedule) -> int | IntExpr:
    """Draw the least work of a parallel nest; -1 is none."""
    bounds = [SMALL_WORK << shift for shift in range(0, 20, 2)]
    found = {bisect_right(bounds, work) - 1 for work in nest_work(sch)} - {-1}
    if not found:
        return SERIAL
    options = [SERIAL, *(bounds[k] for k in sorted(found))]
    weights = [1.0, *(bound / EVEN_WORK for bound in options[1:])]
    return sch.sample_categorical(options, weights, name="parallel_from")
