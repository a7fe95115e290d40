"""Finish a CPU program: vector math, parallel outer and vectorised inner loops, drawn unrolling."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from schedlang.analysis import (
    LoopKind,
    access_strides,
    block_facts,
    constant_extent,
    is_single_child,
    loop_kind,
    require,
)
from schedlang.analysis.concurrency import (
    has_independent_iterations,
    has_plain_body,
    loop_work,
    nest_work,
    starts_at_zero,
)
from schedlang.errors import SpaceError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import (
    MATH_FUNCTIONS,
    blocks_with_calls,
    instruction,
    put_arithmetic_for_calls,
    rewriting,
)
from schedlang.language.schedule import Schedule
from schedlang.modules.cpu.draw_nests import draw_grain, draw_lanes, draw_nests, only_finishing
from schedlang.modules.finish import (
    annotate_unroll,
    check_positive,
    check_prob,
    complement,
    decompose_reduction_block,
    every_block,
    parallelize,
    set_init_apart,
    vectorize_inner,
)
from schedlang.spaces.module import module

# -- Finish as MetaSchedule's post-processors do --------------------------------------------------
#
# One instruction does what RewriteParallelVectorizeUnroll and RewriteReductionBlock do (apache/tvm,
# ``src/s_tir/meta_schedule/postproc``), so that our space contains MetaSchedule's programs.


@dataclass(frozen=True, slots=True)
class _LoopFacts:
    """The facts that decide whether a loop is parallelised or vectorised."""

    extent: int | None
    independent: bool
    annotated: bool
    single_child: bool

    @property
    def fusible(self) -> bool:
        return self.independent and not self.annotated and self.extent is not None


@instruction
def finish_like_metaschedule(
    sch: Schedule, max_jobs: int | IntExpr, max_lanes: int, max_step: int | IntExpr
) -> None:
    """Finish every block with fused loops: outer ones parallel, inner ones vectorised.

    ::

        for i in 8: for j in 4: for k: for l in 16: C
        ->  parallel ij in 32: {vectorized l in 16: init; for k: vectorized l in 16: C}  # unrolled

    Outer spatial loops are fused until they give more than ``max_jobs`` iterations. Inner spatial
    loops are fused while they give at most ``max_lanes`` iterations and every access of the block
    is contiguous along them or does not depend on them. If all loops of a block qualify, they are
    fused into one loop, which is split by ``max_lanes``. Blocks that reduce are annotated for
    unrolling up to ``max_step`` steps (0 disables it); their initial values are set before the
    outermost reduction loop.
    """
    check_positive("finish_like_metaschedule", max_jobs=max_jobs, max_lanes=max_lanes)
    fuse_and_finish(sch, max_jobs, max_lanes, max_step)
    sch.overlap_last_tiles()


def fuse_and_finish(
    sch: Schedule,
    max_jobs: int | IntExpr,
    max_lanes: int,
    max_step: int | IntExpr,
    parallel_from: int | IntExpr = 0,
) -> None:
    """Finish every block; nests that do less work than ``parallel_from`` get no threads."""
    for block in sch.get_child_blocks(sch.get_block("root")):
        loops = sch.get_loops(block)
        if loops:
            worth = parallel_from <= 0 or loop_work(sch, loops[0]) >= parallel_from
            _parallelize_and_vectorize(sch, block, loops, max_jobs if worth else 0, max_lanes)
            if block_facts(sch, block).reduction_extents:
                annotate_unroll(sch, block, max_step)
    for block in every_block(sch):
        set_init_apart(sch, block)


def _parallelize_and_vectorize(
    sch: Schedule, block: BlockRV, loops: list[LoopRV], max_jobs: int | IntExpr, max_lanes: int
) -> None:
    """Fuse outer loops for threads, none with ``max_jobs`` 0, and inner loops for lanes."""
    facts = [_loop_facts(sch, loop) for loop in loops]
    contiguous = _contiguous_loops(access_strides(sch, block, loops), facts)
    outer = _outer_loops(facts, max_jobs)
    inner = _inner_loops(facts[max(0, len(facts) - contiguous) :], max_lanes)
    plain = has_plain_body(sch, block)
    if inner and not plain:
        inner = 0
    # None (all extents are 1) and 0 differ: with 0, a loop too long for a vector is split.
    if outer is not None and inner is not None:
        if plain and contiguous >= len(loops) and all(f.fusible and f.single_child for f in facts):
            rows, lanes = sch.split(sch.fuse(*loops), [None, max_lanes])
            if max_jobs > 0:
                sch.parallel(rows)
            sch.vectorize(lanes)
            return
        outer = min(outer, len(loops) - inner)
    if outer and max_jobs > 0:
        sch.parallel(sch.fuse(*loops[:outer]))
    if inner:
        sch.vectorize(sch.fuse(*loops[-inner:]))


def _loop_facts(sch: Schedule, loop: LoopRV) -> _LoopFacts:
    statement = sch.get(loop)
    return _LoopFacts(
        extent=constant_extent(sch, loop),
        independent=loop_kind(sch, loop) == LoopKind.SPATIAL
        and starts_at_zero(sch, loop)
        and has_independent_iterations(sch, loop),
        annotated=bool(statement.annotations) or statement.thread_binding is not None,
        single_child=is_single_child(sch, loop),
    )


def _outer_loops(facts: Sequence[_LoopFacts], max_jobs: int | IntExpr) -> int | None:
    """Return the number of outer loops to fuse for threads; None if all their extents are 1."""
    count, jobs = 0, 1
    for loop in facts:
        if not loop.fusible:
            break
        count += 1
        jobs *= loop.extent or 1
        if jobs > max_jobs or not loop.single_child:
            break
    return None if jobs == 1 else count


def _inner_loops(facts: Sequence[_LoopFacts], max_lanes: int) -> int | None:
    """Return the number of inner loops to fuse for vectors; None if all their extents are 1."""
    count, lanes = 0, 1
    for loop in reversed(facts):
        if not loop.fusible or not loop.single_child:
            break
        lanes *= loop.extent or 1
        if lanes > max_lanes:
            break
        count += 1
    return None if lanes == 1 else count


def _contiguous_loops(strides: list[list[int]] | None, facts: Sequence[_LoopFacts]) -> int:
    """Return the number of inner loops along which every access is contiguous or constant.

    The innermost loop counts whatever its stride: its lanes then gather or scatter.
    """
    if strides is None:
        return 0
    return min((_contiguous_run(row, facts) for row in strides), default=len(facts))


def _contiguous_run(strides: Sequence[int], facts: Sequence[_LoopFacts]) -> int:
    count = 0
    run: int | None = None  # elements that the loops so far cover; None before the first
    for stride, loop in zip(reversed(strides), reversed(facts), strict=True):
        if stride != 0:
            if run is None:
                if stride != 1 and count > 0:
                    break
            elif stride != run:
                break
            run = stride * (loop.extent or 0)
        count += 1
    return count


# -- Replace mathematical functions by arithmetic that vectorises ---------------------------------


@rewriting(put_arithmetic_for_calls)
def replace_math_calls(
    sch: Schedule, block: BlockRV, functions: Sequence[str] = MATH_FUNCTIONS
) -> None:
    """Replace mathematical functions in a block, and divisions by a value that a row shares.

    ::

        C = exp(A) / B   ->   C = 2^n * (1 + r + r^2 * p(r)) * (1 / B)
    """


@instruction
def vectorize_math(sch: Schedule, functions: Sequence[str] = MATH_FUNCTIONS) -> None:
    """Replace mathematical functions in every block that the program has at this point.

    ::

        for i: C = exp(A)   ->   for i: C = 2^n * (1 + r + r^2 * p(r))

    It is one instruction, because the blocks depend on earlier decisions.
    """
    for name in blocks_with_calls(sch, functions):
        replace_math_calls(sch, sch.get_block(name), functions)


@module(at="root", stage="finish")
def vector_math(
    sch: Schedule, *, functions: Sequence[str] = MATH_FUNCTIONS, prob: float = 1.0
) -> None:
    """Compute exp, tanh, erf, log and their like by polynomials instead of one libm call a lane.

    ::

        vectorized j: C[j] = exp(A[j])   ->   vectorized j: C[j] = 2^n * (1 + r + r^2 * p(r))

    It computes in float32 (float16 and bfloat16 values are converted); docs/vector_math.md states
    the errors. ``"division"`` in ``functions`` replaces x / y by x * (1 / y) if y is constant along
    the row that is stored. Use it after inlining, and before modules that finish the loops. With
    ``prob`` below 1, using it is a choice of this probability.
    """
    if isinstance(functions, str) or not functions:
        raise SpaceError(f"vector_math(functions={functions!r}): it takes a list of names")
    check_prob("vector_math", prob)
    for name in functions:
        if name not in MATH_FUNCTIONS:
            raise SpaceError(
                f"vector_math(functions={list(functions)!r}): there is no {name!r}; "
                f"known: {', '.join(MATH_FUNCTIONS)}"
            )
    require(bool(blocks_with_calls(sch, functions)), "no block calls such a function in float32")
    if prob < 1 and not sch.choose("vector_math", (True, False), (prob, complement(prob))):
        return
    vectorize_math(sch, list(functions))


# -- Finish a CPU program: parallel outer loops, vectorised inner loops, drawn unrolling ----------
#
# Starting threads takes one to two microseconds. Small programs therefore choose which of their
# loop nests get threads.

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
