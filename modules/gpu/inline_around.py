"""Inline what surrounds a matrix product: into the copies of its operands and of its result."""

from __future__ import annotations

from schedlang.analysis import block_facts, count_operations
from schedlang.errors import InstructionError, NotApplicable
from schedlang.instructions.handles import BlockRV
from schedlang.language.schedule import Schedule
from schedlang.modules.shared.auto_inline import auto_inline

_INLINE = auto_inline(inline_branches=True, inline_expensive=True)


def inline_producers(sch: Schedule, block: BlockRV, *, copies_only: bool = False) -> None:
    """Inline the element-wise blocks that a block reads, and those that they read.

    ::

        P = A if inside else 0; T = P transposed; B = T   ->   B = A transposed if inside else 0

    With ``copies_only``, blocks that compute or branch stay: transposes and reshapes do not.
    """
    for producer in sch.get_producers(block):
        inline_producers(sch, producer, copies_only=copies_only)
        facts = block_facts(sch, producer)
        branches = facts.has_if_then_else or bool(facts.operations)
        if copies_only and (branches or count_operations(sch, producer)):
            continue
        mark = sch.mark()
        try:
            _INLINE(sch, producer)
        except NotApplicable:
            sch.rollback(mark)


def inline_consumers(sch: Schedule, block: BlockRV) -> None:
    """Inline the element-wise blocks that read a block into it: bias, activation, conversion.

    ::

        C = P; D = C + bias; E = max(D, 0)   ->   E = max(P + bias, 0)
    """
    while len(consumers := sch.get_consumers(block)) == 1:
        mark = sch.mark()
        try:
            sch.reverse_compute_inline(consumers[0])
        except InstructionError:
            sch.rollback(mark)
            return
