"""Compare two programs, ignoring annotations and the order of instructions."""

from __future__ import annotations

from typing import Any

from tvm.ir import IRModule
from tvm.s_tir import SBlock, SBlockRealize, Schedule
from tvm_ffi import structural_walk

from schedlang.tvm.program import structurally_equal

# MetaSchedule's notes to its own later steps; code generation does not know them.
_NOTES = "meta_schedule."


def without_notes(sch: Schedule) -> IRModule:
    """A scheduled program without block annotations that only MetaSchedule reads."""
    found: list[tuple[str, str]] = []

    def note(block: Any) -> None:
        found.extend(
            (str(block.name_hint), str(key))
            for key in block.annotations
            if str(key).startswith(_NOTES)
        )

    structural_walk(sch.mod["main"].body, (SBlock, note))
    for name, key in found:
        sch.unannotate(sch.get_sblock(name), key)
    return sch.mod


def same_program(one: IRModule, other: IRModule) -> bool:
    """Whether two programs are equal up to the names of variables.

    Loops, blocks, their order, loop kinds, unroll pragmas and sizes all count. The order in which
    the root block lists its temporary buffers does not: it is the order of the instructions that
    made them, and means nothing.
    """
    return structurally_equal(_with_buffers_by_name(one), _with_buffers_by_name(other))


def _with_buffers_by_name(mod: IRModule) -> IRModule:
    function = mod["main"]
    realize = function.body
    root = realize.block
    block = SBlock(
        root.iter_vars,
        root.reads,
        root.writes,
        root.name_hint,
        root.body,
        root.init,
        sorted(root.alloc_buffers, key=lambda buffer: str(buffer.name)),
        root.match_buffers,
        root.annotations,
    )
    body = SBlockRealize(realize.iter_values, realize.predicate, block)
    return IRModule({"main": function.with_body(body)})
