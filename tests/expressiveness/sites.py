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
        return kind, str(first_block(statement).name_hint), str(statement.loop_var.name)
    return kind, str(statement.name_hint), ""


def first_block(loop: For) -> Any:
    """The first block below a loop."""
    blocks: list[Any] = []
    structural_walk(loop.body, (SBlock, blocks.append))
    return blocks[0]


def key_of_site(rest: str) -> tuple[str, str]:
    """Block and loop variable of a site ``tile:block:loop``, given without ``tile:``."""
    block, _, loop = rest.rpartition(":")
    return block, loop
