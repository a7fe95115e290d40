"""Cases of lookups; they annotate their results, so that the golden texts show them."""

from __future__ import annotations

from schedlang.language.schedule import Schedule
from tests.language.primitives.case import Case, Misuse
from tests.language.primitives.programs import biased_matmul, chain, elementwise, siblings


def _note(sch: Schedule, *found: object) -> None:
    for position, handle in enumerate(found):
        sch.annotate(handle, "found", position)


def _child_blocks(sch: Schedule) -> None:
    i, _ = sch.get_loops("C")
    sch.compute_at("B", i)
    _note(sch, *sch.get_child_blocks(i))


CASES = [
    Case("get_block", chain, lambda sch: _note(sch, sch.get_block("B"))),
    Case("get_block_of_a_function", chain, lambda sch: _note(sch, sch.get_block("B", "main"))),
    Case("get_loops", biased_matmul, lambda sch: _note(sch, *sch.get_loops("C"))),
    Case("get_child_blocks", chain, _child_blocks),
    Case("get_producers", biased_matmul, lambda sch: _note(sch, *sch.get_producers("D"))),
    Case("get_consumers", biased_matmul, lambda sch: _note(sch, *sch.get_consumers("C"))),
    Case("get_output_blocks", siblings, lambda sch: _note(sch, *sch.get_output_blocks("root"))),
]

MISUSES = [
    Misuse(
        "get_block",
        chain,
        lambda sch: sch.get_block("D"),
        "name='D'",
        "there is no block 'D'; the program has B, C",
    ),
    Misuse(
        "get_block",
        chain,
        lambda sch: sch.get_block(1),
        "name=1",
        "takes a string, not int 1",
    ),
    Misuse(
        "get_block",
        chain,
        lambda sch: sch.get_block("B", "other"),
        "func_name='other'",
        """Cannot find global var "other" in the Module candidates are: .*main""",
    ),
    Misuse(
        "get_loops",
        chain,
        lambda sch: sch.get_loops(sch.get_loops("B")[0]),
        "block=l1",
        "takes a block .*, not LoopRV l1",
    ),
    Misuse(
        "get_loops",
        chain,
        lambda sch: sch.get_loops(_inlined(sch)),
        "block=b0",
        "The block no longer exists in the IRModule",
    ),
    Misuse(
        "get_child_blocks",
        elementwise,
        lambda sch: sch.get_child_blocks(None),
        "block_or_loop=None",
        "takes a block or a loop, not NoneType None",
    ),
    Misuse(
        "get_producers",
        chain,
        lambda sch: sch.get_producers(["B"]),
        "block=['B']",
        "takes a block .*, not list",
    ),
    Misuse(
        "get_producers",
        chain,
        lambda sch: sch.get_producers("root"),
        "block=b0 (root)",
        "does not operate on the root block",
    ),
    Misuse(
        "get_consumers",
        chain,
        lambda sch: sch.get_consumers(Schedule(sch.workload).get_block("B")),
        "block=b0",
        "b0 is a handle of another schedule",
    ),
    Misuse(
        "get_output_blocks",
        chain,
        lambda sch: sch.get_output_blocks(0),
        "scope_block=0",
        "takes a block .*, not int 0",
    ),
]


def _inlined(sch: Schedule) -> object:
    """A block that inlining took away."""
    block = sch.get_block("B")
    sch.compute_inline(block)
    return block
