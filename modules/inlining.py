"""Where constants and cheap blocks are computed: inlined, or below a loop of their consumer."""

from __future__ import annotations

import math
from collections.abc import Sequence

from schedlang.analysis import (
    BlockFacts,
    block_facts,
    computes_ahead,
    count_consumers,
    count_operations,
    has_first_binding,
    has_own_loops,
    has_plain_binding,
    is_below_root,
    is_in_software_pipeline,
    is_output,
    is_spatial_program,
    leaves_cache,
    read_pattern,
    repeated_operations,
    repeated_producers,
    require,
    runs_ahead,
    written_rank,
)
from schedlang.analysis.concurrency import is_in_pipeline, is_regular
from schedlang.errors import InstructionError, NotApplicable, SpaceError
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.finish import check_prob, complement, not_applicable_if_refused
from schedlang.spaces.module import block_names, module

# Calls that cost more to repeat in every consumer than to store once.
EXPENSIVE = frozenset({"tirx.exp", "tirx.erf", "tirx.tanh", "tirx.log", "tirx.pow", "tirx.sigmoid"})
# Operations that inlining repeats for an element. Below the first it always pays; above the second
# never, and a chain of such blocks would double its program with each; between them a draw decides.
FEW_REPEATED = 64
MAX_REPEATED = 128
# Annotation that disables the module for a block; TVM's operator library sets it too.
_DISABLED = "meta_schedule.inline_rule"


@module
def auto_inline(
    sch: Schedule,
    block: BlockRV,
    *,
    into_consumer: bool = True,
    into_producer: bool = False,
    inline_branches: bool = False,
    inline_expensive: bool = False,
    expensive: Sequence[str] = tuple(sorted(EXPENSIVE)),
    max_operations: int | None = None,
    require_injective: bool = False,
    require_ordered: bool = False,
    always_in_spatial_programs: bool = False,
    unordered_prob: float = 1.0,
    weights_ahead: bool = True,
) -> None:
    """Inline a spatial block into its consumers, or else into its only producer.

    ::

        B = A + 1; C = B * 2   ->   C = (A + 1) * 2

    Blocks with branches (padding) are inlined only with ``inline_branches``, blocks that call a
    function in ``expensive`` only with ``inline_expensive``. ``max_operations`` bounds the
    arithmetic operations of a block that its consumers would compute more than once, such as a call
    rewritten as a long polynomial; ``None`` disables the bound.

    ``require_injective`` and ``require_ordered`` exclude broadcasts of a diagonal, strides and
    transposes: each read must be indexed by distinct output variables, up to constant offsets
    (injective), in the order of the output (ordered). With both this is Ansor's rule 2 (strictly
    inlinable; Ansor, Table 1) and MetaSchedule's AutoInline for CPUs, whose
    ``always_in_spatial_programs`` waives these conditions in programs without reductions. With
    ``unordered_prob`` below 1, a block that is not injective and ordered is inlined with this
    probability. ``into_producer`` with ``inline_branches`` and ``inline_expensive`` is
    MetaSchedule's AutoInline for GPUs. A block that reads nothing is a constant and always inlined.
    With ``weights_ahead`` one that computes from weights only (a cast, a scale) stays, to run ahead
    of all calls. A block that writes a cache back (``"local"`` to ``"global"``) never goes into its
    consumers, which may run on other threads; with ``into_producer`` they go into it.

    A block that is read several times is computed as often (Halide's choice, store or recompute).
    From ``FEW_REPEATED`` repeated operations an element on, a draw decides; above
    ``MAX_REPEATED`` the block is stored.
    """
    facts = block_facts(sch, block)
    if isinstance(expensive, str):
        raise SpaceError(f"auto_inline(expensive={expensive!r}): it takes a list of names")
    check_prob("auto_inline", unordered_prob, "unordered_prob")
    if max_operations is not None and max_operations < 0:
        raise SpaceError(
            f"auto_inline(max_operations={max_operations}): give 0 or more, or None for no bound"
        )
    require(not facts.reduction_extents and not facts.has_init, "a reduction cannot be inlined")
    require(facts.writes == 1, "it writes several buffers")
    require(_DISABLED not in facts.annotations, f"it is annotated with {_DISABLED}")
    require(not is_in_software_pipeline(sch, block), "it is a stage of a pipeline")
    if weights_ahead:
        require(not computes_ahead(sch, block), "it computes from weights, ahead of all calls")
    bound = has_plain_binding(sch, block) or has_first_binding(sch, block)
    require(bound, "its variables are not plain loops")
    waived = facts.reads == 0 or (always_in_spatial_programs and is_spatial_program(sch))
    if not waived:
        branches = facts.has_if_then_else or "prim.if_then_else" in facts.operations
        require(inline_branches or not branches, "it branches")
        costly = inline_expensive or not facts.operations & set(expensive)
        require(costly, "it is expensive to repeat")
        if require_injective or require_ordered or unordered_prob < 1:
            injective, ordered = read_pattern(sch, block)
            require(injective or not require_injective, "its reads are not injective")
            require(ordered or not require_ordered, "its reads are not in order")
            if not (injective and ordered) and unordered_prob < 1:
                probs = (unordered_prob, complement(unordered_prob))
                if not sch.choose(f"inline:{facts.name}", (True, False), probs):
                    return
    if into_consumer and _into_consumers(sch, block, facts, None if waived else max_operations):
        return
    require(into_producer, "it cannot be put into what reads it")
    if not _may_repeat(sch, repeated_producers(sch, block), f"producers:{facts.name}"):
        return
    try:
        sch.reverse_compute_inline(block)
    except InstructionError as error:  # several producers, one that reduces
        raise NotApplicable(error.reason) from error


def _may_repeat(sch: Schedule, repeated: int, name: str) -> bool:
    """Return whether to compute again; a draw where storing and recomputing may both pay."""
    require(repeated <= MAX_REPEATED, f"it repeats {repeated} operations an element")
    return repeated < FEW_REPEATED or sch.choose(f"recompute:{name}", (True, False))


def _into_consumers(sch: Schedule, block: BlockRV, facts: BlockFacts, bound: int | None) -> bool:
    """Inline a block, or store it where a draw says so; return False where neither was decided."""
    if is_output(sch, block) or count_consumers(sch, block) == 0:
        return False
    if leaves_cache(sch, block):  # consumers would read a cache that other threads hold
        return False
    if bound is not None:
        consumers = sch.get_consumers(block)
        repeated = sum(_iterations(block_facts(sch, consumer)) for consumer in consumers)
        few = repeated <= _iterations(facts) or count_operations(sch, block) <= bound
        require(few, f"it has more than {bound} operations to repeat")
    if not _may_repeat(sch, repeated_operations(sch, block), facts.name):
        return True
    try:
        sch.compute_inline(block)
    except InstructionError:  # a body that is not one plain store
        return False
    return True


def _iterations(facts: BlockFacts) -> int:
    return math.prod(facts.spatial_extents) * math.prod(facts.reduction_extents)


@module
def inline_constants(sch: Schedule, block: BlockRV, *, tensors: bool = False) -> None:
    """Inline a block that computes a constant scalar.

    ::

        c[()] = 59; B = A + c[()]   ->   B = A + 59

    The conditions are those of MetaSchedule's InlineConstantScalars. ``tensors`` includes constant
    tensors, whose elements depend on their indices only. One that would repeat more than
    ``MAX_REPEATED`` operations stays.
    """
    facts = block_facts(sch, block)
    require(facts.reads == 0, "it reads a buffer")
    require(facts.writes == 1, "it does not write one buffer")
    require(not facts.reduction_extents and not facts.has_init, "it reduces")
    require(tensors or written_rank(sch, block) == 0, "it writes a tensor, not a scalar")
    require(not is_output(sch, block), "it writes an output")
    require(count_consumers(sch, block) > 0, "nothing reads it")
    repeated = repeated_operations(sch, block)
    require(repeated <= MAX_REPEATED, f"it repeats {repeated} operations an element")
    with not_applicable_if_refused():
        sch.compute_inline(block)


@module(at="root")
def random_compute_location(sch: Schedule, *, reductions: bool = True, decay: float = 1.0) -> None:
    """Draw for each producer (padding, a row's sum) the loop of its consumer to compute it under.

    ::

        A; B reads A; for i: C reads A, B   ->   for i: {A[i..]; B[i..]; C}   or as they were

    It applies to unscheduled blocks: not tiled, and alone in their loops, in programs that
    overwrite nothing they have read. Vectorised loops, as those of a register tile, are no
    locations. Blocks that depend on weights only stay at the root, to run ahead of all calls.
    Consumers are placed before their producers, so that a whole chain, such as the four
    stages of a softmax, can meet in one loop, and a block that ``add_rfactor`` split off follows
    its reduction. The conditions and the order are those of MetaSchedule's RandomComputeLocation;
    in addition, a block split off from an output may move. ``reductions=False`` leaves reductions
    where they are. ``decay`` shapes the prior: a loop is ``decay`` times as likely as the loop
    around it, under which less is repeated.
    """
    for name in reversed(block_names(sch)):
        mark = sch.mark()
        block = sch.get_block(name)
        if not _may_move(sch, block, reductions):
            sch.rollback(mark)
        else:
            loop = sch.sample_compute_location(block, name=f"location:{name}", decay=decay)
            try:
                sch.compute_at(block, loop, preserve_unit_loops=True)
            except InstructionError:  # the block stays where it is
                sch.rollback(mark)


def _may_move(sch: Schedule, block: BlockRV, reductions: bool) -> bool:
    facts = block_facts(sch, block)
    if facts.reduction_extents and not (reductions and facts.has_init):
        return False
    if is_output(sch, block) or not is_below_root(sch, block):
        return False
    if not has_plain_binding(sch, block) or not has_own_loops(sch, block):
        return False
    if not is_regular(sch, block) or not is_in_pipeline(sch, block):
        return False
    if runs_ahead(sch, block):
        return False
    return count_consumers(sch, block) > 0
