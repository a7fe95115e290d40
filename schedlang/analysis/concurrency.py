"""Analyses for modules that run loops in parallel or in lanes; no call is recorded."""

from __future__ import annotations

from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.language.schedule import Schedule
from schedlang.tvm.analysis import concurrency as _tvm, loop_kinds as _kinds, work as _work
from schedlang.tvm.schedule import chains as _chains, updates as _updates

__all__ = [
    "adds_up",
    "has_independent_iterations",
    "has_one_chain",
    "has_plain_body",
    "is_in_pipeline",
    "is_inside_loops",
    "is_only_writer",
    "is_regular",
    "loop_work",
    "loops_start_at_zero",
    "may_run_in_lanes",
    "may_run_in_parallel",
    "nest_work",
    "starts_at_zero",
    "updated_elements",
]


def has_independent_iterations(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether the iterations of a loop may run at the same time.

    ``parallel`` and ``vectorize`` refuse most loops whose iterations may not, but not all: a value
    may go from one iteration to the next through two blocks, or several iterations may write the
    same element.
    """
    return _tvm.has_independent_iterations(sch.raw, sch.raw_value(sch.own(loop)))


def may_run_in_parallel(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether ``parallel`` accepts a loop: no iteration stores what another one accesses.

    More loops do than have independent iterations by the form of their blocks, such as one over the
    rows of a scan. Such loops may also be moved into the loops inside them.
    """
    return _kinds.may_run_in_parallel(sch.raw, sch.raw_value(sch.own(loop)))


def may_run_in_lanes(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether ``vectorize`` accepts a loop: its iterations are independent, or proven apart.

    The proof serves loops directly around a block of one store, such as an update whose initial
    value another block stores.
    """
    return _kinds.may_run_in_lanes(sch.raw, sch.raw_value(sch.own(loop)))


def is_regular(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the order of the block's iterations does not matter: no scan, no update.

    Either all its variables are spatial and it reads nothing that it writes, or it is a reduction
    with an initial value.
    """
    return _tvm.is_regular(sch.raw, sch.raw_value(sch.own(block)))


def adds_up(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the block updates its result, as in ``C[i] = C[i] + x``, in any order.

    It sets no initial value. The operation is an addition, multiplication, minimum or maximum.
    """
    return _tvm.adds_up(sch.raw, sch.raw_value(sch.own(block)))


def updated_elements(sch: Schedule, block: BlockRV) -> int | None:
    """Return the number of elements of the tensor that a block updates; None if it does more.

    The updates, ``H[f] = H[f] + x``, may be made in any order, at any places.
    """
    return _updates.updated_elements(sch.get(block))


def has_one_chain(sch: Schedule, block: BlockRV) -> bool:
    """Return whether all iterations of the innermost loop around a block update the same element.

    Each then waits for the one before it.
    """
    return _chains.has_one_chain(sch.raw, sch.raw_value(sch.own(block)))


def is_only_writer(sch: Schedule, block: BlockRV) -> bool:
    """Return whether no other block writes what the block writes."""
    return _tvm.is_only_writer(sch.raw, sch.raw_value(sch.own(block)))


def is_in_pipeline(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the blocks beside it only read what earlier ones wrote.

    Nothing is overwritten after it was read. TVM moves and inlines blocks only there.
    """
    return _tvm.is_in_pipeline(sch.raw, sch.raw_value(sch.own(block)))


def is_inside_loops(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the block is part of another block that has loops around it."""
    return _tvm.is_inside_loops(sch.raw, sch.raw_value(sch.own(block)))


def has_plain_body(sch: Schedule, block: BlockRV) -> bool:
    """Return whether the block does nothing but store values."""
    return _tvm.has_plain_body(sch.raw, sch.raw_value(sch.own(block)))


def starts_at_zero(sch: Schedule, loop: LoopRV) -> bool:
    """Return whether the first value of the loop's variable is 0; other loops do not split."""
    return _tvm.starts_at_zero(sch.raw, sch.raw_value(sch.own(loop)))


def loops_start_at_zero(sch: Schedule, block: BlockRV) -> bool:
    """Return whether all loops around the block start at 0."""
    return _tvm.loops_start_at_zero(sch.raw, sch.raw_value(sch.own(block)))


def loop_work(sch: Schedule, loop: LoopRV) -> int:
    """Estimate the work of a loop: operations and accesses to elements.

    A call counts as 16. Products that reuse data count an eighth, because they may run that much
    faster.
    """
    return _work.loop_work(sch.raw, sch.raw_value(sch.own(loop)))


def nest_work(sch: Schedule, *, scheduled: bool = True) -> list[int]:
    """Estimate the work of each outermost loop nest, in the unit of ``loop_work``.

    ``scheduled=False`` asks about the program before scheduling.
    """
    return _work.program_work((sch.mod if scheduled else sch.workload.mod)["main"])
