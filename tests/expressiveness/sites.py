"""Keys of draws that are equal for MetaSchedule's instructions and ours."""

from __future__ import annotations

from typing import Any

from tvm.s_tir import SBlock
from tvm.tirx import For
from tvm_ffi import structural_walk

# (kind of the draw, block, loop variable); empty where a draw is for none.
Key = tuple[str, str, str]


def key_of_draw(kind: str, statement: Any) -> Key:
    """The key of a draw for a block or a loop, given by its statement, or for the program (None).

    Both sides start from the same program and call the same primitives of TVM, which name blocks
    and loop variables after those they come from: names agree where the programs do.
    """
    if statement is None:
        return kind, "", ""
    if isinstance(statement, For):
        return kind, _first_block(statement), str(statement.loop_var.name)
    return kind, str(statement.name_hint), ""


def _first_block(loop: For) -> str:
    names: list[str] = []
    structural_walk(loop.body, (SBlock, lambda block: names.append(str(block.name_hint))))
    return names[0]
