"""Finish a program on any machine; checks and weights that many modules share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from schedlang.analysis import (
    LoopKind,
    block_facts,
    bound_loops,
    branches_along,
    constant_extent,
    is_single_child,
    loop_is_plain,
    loop_kind,
    loop_kinds,
    require,
    stores_contiguously,
)
from schedlang.analysis.concurrency import (
    has_independent_iterations,
    has_plain_body,
    is_inside_loops,
    loop_work,
    may_run_in_lanes,
    may_run_in_parallel,
    starts_at_zero,
)
from schedlang.errors import InstructionError, NotApplicable, SpaceError
from schedlang.expressions import IntExpr
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.macros import instruction
from schedlang.language.schedule import Schedule
from schedlang.spaces.module import block_names, module

# -- Checks of options and of what TVM accepts, and weights of priors -----------------------------

STARTS_LATER = "a loop does not start at 0"


def check_positive(module_name: str, **options: int | IntExpr) -> None:
    """Raise SpaceError for the first option that is not an integer of at least 1."""
    for option, value in options.items():
        if not isinstance(value, int | IntExpr) or value < 1:
            raise SpaceError(
                f"{module_name}({option}={value!r}): it takes an integer of at least 1"
            )


def check_prob(module_name: str, prob: float, option: str = "prob") -> None:
    """Raise SpaceError unless ``option`` can be the probability of one of two alternatives."""
    if not 0 < prob <= 1:
        raise SpaceError(f"{module_name}({option}={prob}): give more than 0 and at most 1")


@contextmanager
def not_applicable_if_refused() -> Iterator[None]:
    """Turn the refusal of an instruction into ``NotApplicable``; the module is then undone.

    Modules ask first whether they apply. This is for programs that nobody thought of.
    """
    try:
        yield
    except InstructionError as error:
        raise NotApplicable(error.reason) from error


# Weight of a factor that fills whole vectors or all cores; other factors weigh 1.
PREFERENCE = 16.0


def weigh_multiples(step: int, bound: int) -> dict[int, float]:
    """Return a weight for each multiple of ``step`` up to ``bound``: ``PREFERENCE``.

    Factors that are not in the result weigh 1: they waste lanes or cores.
    """
    return {factor: PREFERENCE for factor in range(step, bound + 1, step)}


def complement(prob: float) -> float:
    """Return ``1 - prob`` as one writes it: 0.1 for 0.9, not 0.09999999999999998."""
    return round(1 - prob, 12)


# -- Finishing steps as instructions: they look at the program again at every replay --------------
#
# What MetaSchedule does in hidden post-processing is here part of the trace (design, section 3).

# A split for fewer lanes than this costs more than it gains.
MIN_LANES = 4
# Work (``loop_work``) that takes about as long as starting threads and waiting for them.
WORTH_LAUNCHING = 2**15


def every_block(sch: Schedule) -> list[BlockRV]:
    """Return the blocks below the root; where names repeat, without blocks inside others."""
    names = block_names(sch)
    if len(names) < len(block_names(sch, repeated=True)):
        return list(sch.get_child_blocks(sch.get_block("root")))
    return [sch.get_block(name) for name in names]


@instruction
def parallelize_outer(sch: Schedule, block: BlockRV, max_jobs: int | IntExpr) -> None:
    """Parallelise a block's outer spatial loops, fused until they give ``max_jobs`` iterations.

    ::

        for i in 4: for j in 8: for k: C   ->   parallel ij in 32: for k: C

    Loops whose iterations depend on each other stay serial. Where they are the outermost ones, the
    loops inside them are parallelised.
    """
    parallelize(sch, block, max_jobs)


def parallelize(
    sch: Schedule, block: BlockRV, max_jobs: int | IntExpr, parallel_from: int | IntExpr = 0
) -> None:
    """Parallelise the loops of a block, unless they do less work than ``parallel_from``."""
    if is_inside_loops(sch, block):  # threads do not start others
        return
    fusible: list[LoopRV] = []
    jobs = 1
    least = parallel_from
    for loop in sch.get_loops(block):
        kind = loop_kind(sch, loop)
        if kind == LoopKind.REDUCTION or not loop_is_plain(sch, loop):
            break
        extent = constant_extent(sch, loop)
        if extent is None:
            break
        # A proof takes time: the outermost loop that is parallel is worth it.
        apart = has_independent_iterations if fusible else may_run_in_parallel
        if not apart(sch, loop):
            if fusible or kind != LoopKind.SPATIAL:
                break
            least = max(int(least), WORTH_LAUNCHING)  # the threads start at each iteration
            continue
        if fusible and not (starts_at_zero(sch, fusible[0]) and starts_at_zero(sch, loop)):
            break
        fusible.append(loop)
        jobs *= extent
        if jobs >= max_jobs or not is_single_child(sch, loop):
            break
    if jobs > 1 and (least <= 0 or loop_work(sch, fusible[0]) >= least):
        sch.parallel(sch.fuse(*fusible) if len(fusible) > 1 else fusible[0])


@instruction
def vectorize_inner(sch: Schedule, block: BlockRV, max_lanes: int) -> None:
    """Vectorise a block's innermost loop, or its largest part of at most ``max_lanes`` elements.

    ::

        for i: for j in 256: C[i, j]   ->   for i: for j0 in 4: vectorized j1 in 64: C[i, j]

    The loop must be spatial, its iterations independent and the stores contiguous along it, and no
    condition in the block's value may depend on it: such lanes compile and run slowly. Inner loops
    of extent 1 are ignored.
    """
    for loop in reversed(sch.get_loops(block)):
        # TVM 0.27 miscompiles several blocks below a vectorised loop: it keeps a value that one
        # block passes to the next for one lane only.
        if not is_single_child(sch, loop):
            return
        extent = constant_extent(sch, loop)
        if extent == 1:
            continue
        if extent is None:
            return
        if loop_kind(sch, loop) != LoopKind.SPATIAL or not loop_is_plain(sch, loop):
            return
        if not stores_contiguously(sch, block, loop) or branches_along(sch, block, loop):
            return
        if not may_vectorize(sch, block, loop):
            return
        lanes = widest_vector(extent, max_lanes)
        if lanes == extent:
            sch.vectorize(loop)
        elif lanes >= MIN_LANES:
            sch.vectorize(sch.split(loop, [None, lanes])[1])
        return


def may_vectorize(sch: Schedule, block: BlockRV, loop: LoopRV) -> bool:
    """Return whether TVM accepts a loop of a block as a vector, and computes the same with it."""
    plain = has_plain_body(sch, block) and starts_at_zero(sch, loop)
    return plain and may_run_in_lanes(sch, loop)


def widest_vector(extent: int, max_lanes: int) -> int:
    """Return the largest divisor of a loop's extent that is at most ``max_lanes``."""
    return max(d for d in range(1, min(max_lanes, extent) + 1) if extent % d == 0)


@instruction
def annotate_unroll(sch: Schedule, block: BlockRV, max_step: int | IntExpr) -> None:
    """Let code generation unroll a block's loops whose bodies have at most ``max_step`` steps.

    ::

        for i: C   ->   for i: C  # {"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 1}
    """
    if max_step <= 0:
        return
    loops = sch.get_loops(block)
    if loops:
        sch.annotate(loops[0], "pragma_auto_unroll_max_step", max_step)
        sch.annotate(loops[0], "pragma_unroll_explicit", 1)


@instruction
def decompose_reduction_block(sch: Schedule, block: BlockRV, max_lanes: int) -> None:
    """Set a reduction's initial value before its outermost reduction loop, in vector form.

    ::

        for i: for k: for j: {init if k == 0; C += ..}
        ->   for i: {for j: init; for k: for j: C += ..}
    """
    init = set_init_apart(sch, block)
    if init is not None:
        vectorize_inner(sch, init, max_lanes)


def set_init_apart(sch: Schedule, block: BlockRV, position: int | None = None) -> BlockRV | None:
    """Decompose a reduction, and return the block that sets its initial value.

    The initial value is set before the outermost reduction loop, or before loop number
    ``position`` if that is further out; always inside loops that repeat the whole reduction, as
    loops of a consumer do that computes it more than once. Returns None if the block sets no
    initial value, has no reduction loop, or is none that TVM takes apart.
    """
    if sch.get(block).init is None:
        return None
    loops = sch.get_loops(block)
    own = bound_loops(sch, block, loops)
    outermost = next((k for k in own if not _is_spatial(sch, loops[k])), None)
    if outermost is None:
        return None
    repeating = [
        k for k in range(outermost) if k not in own and constant_extent(sch, loops[k]) != 1
    ]
    before = outermost if position is None else min(position, outermost)
    before = max([before, *(k + 1 for k in repeating)])
    try:
        return sch.decompose_reduction(block, loops[before])
    except InstructionError:  # another block writes the result as well, say
        return None


def _is_spatial(sch: Schedule, loop: LoopRV) -> bool:
    return loop_kind(sch, loop) == LoopKind.SPATIAL


PLACES = ("outermost", "drawn")


@instruction
def initialize_before(
    sch: Schedule, block: BlockRV, position: int | IntExpr, max_lanes: int
) -> None:
    """Set a reduction's initial value before its loop number ``position``, 0 being the outermost.

    ::

        for i: for j: for k: {init if k == 0; C += ..}   ->   for i: {for j: init; for j: for k: C}

    The example has position 1. A position inside the outermost reduction loop means that loop.
    ``max_lanes`` is the largest number of elements that one vector store initialises; 0 disables
    vector stores.
    """
    init = set_init_apart(sch, block, int(position))
    if init is not None and max_lanes > 0:
        vectorize_inner(sch, init, max_lanes)


@module(stage="finish")
def decompose_reduction(
    sch: Schedule, block: BlockRV, *, where: str = "outermost", max_lanes: int = 0
) -> None:
    """Give a reduction's initial value a block of its own.

    ::

        for i: for k: for j: {init if k == 0; C}   ->   for i: {for j: init; for k: for j: C}

    ``where`` is ``"outermost"``: before the outermost reduction loop (MetaSchedule's
    RewriteReductionBlock); or ``"drawn"``: before that loop or one around it. Use it after the
    loops are parallelised and vectorised, because TVM does not parallelise a loop around a
    decomposed reduction, and without ``parallel_vectorize_unroll``, which decomposes as well.
    """
    if where not in PLACES:
        raise SpaceError(f"decompose_reduction(where={where!r}): it takes one of {PLACES}")
    facts = block_facts(sch, block)
    require(bool(facts.reduction_extents) and facts.has_init, "it sets no initial value")
    loops = sch.get_loops(block)
    kinds = loop_kinds(sch, loops)
    require(any(kind != LoopKind.SPATIAL for kind in kinds), "it has no reduction loop")
    first = next(k for k, kind in enumerate(kinds) if kind != LoopKind.SPATIAL)
    position: int | IntExpr = first
    if where == "drawn" and first > 0:
        # Before a loop of extent 1 is the same as before the loop inside it.
        useful = [k for k in range(first) if constant_extent(sch, loops[k]) != 1]
        if useful:
            position = sch.sample_categorical([*useful, first], name=f"init:{facts.name}")
    initialize_before(sch, block, position, max_lanes)
