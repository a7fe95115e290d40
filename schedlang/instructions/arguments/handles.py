"""Arguments that are blocks and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from schedlang.instructions.arguments.base import Argument, Earlier, described, is_of
from schedlang.instructions.arguments.plain import PlainArgument
from schedlang.instructions.arguments.sequences import SequenceArgument
from schedlang.instructions.arguments.tvm_reader import TVMReader
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.state import BadArgument, ProgramState


class HandleArgument(PlainArgument):
    """A handle of one of the types ``stored``; where a block fits, a user may give its name."""

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        if is_of(value, self.stored):
            return state.own(value)
        if isinstance(value, str) and BlockRV in self.stored:
            return state.get_block(value)
        is_loops = isinstance(value, list) and self.stored == (LoopRV,)
        hint = "; get_loops returns a list: pass one of them" if is_loops else ""
        raise BadArgument(f"takes {self.wanted}, not {described(value)}{hint}")


BLOCK = HandleArgument(
    "block",
    "a `BlockRV`, or a block's name",
    "a block (BlockRV, or its name)",
    (BlockRV,),
    "block",
    "inputs",
)
LOOP = HandleArgument("loop", "a `LoopRV`", "a loop (LoopRV)", (LoopRV,), "loop", "inputs")
_BLOCK_OR_LOOP = HandleArgument(
    "block or loop",
    "a `BlockRV`, a `LoopRV`, or a block's name",
    "a block or a loop",
    (BlockRV, LoopRV),
    "block_or_loop",
    "inputs",
)
_BLOCKS = SequenceArgument(BLOCK, takes="a list of blocks")


class LoopOrBlocksArgument(Argument):
    """A loop, or a list of blocks."""

    name = "loop or blocks"
    takes = "a `LoopRV`, or a list of blocks"
    stored = (LoopRV, tuple)
    tvm_part = "inputs"

    def accept(
        self, state: ProgramState, value: Any, earlier: Earlier
    ) -> LoopRV | tuple[BlockRV, ...]:
        if isinstance(value, LoopRV):
            return state.own(value)
        if isinstance(value, (list, tuple)):
            return tuple(BLOCK.accept(state, item, earlier) for item in value)
        raise BadArgument(f"takes a loop or a list of blocks, not {described(value)}")

    def check_stored(self, content: Any, where: str) -> None:
        super().check_stored(content, where)
        if isinstance(content, tuple):
            _BLOCKS.check_stored(content, where)

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> Any:
        if isinstance(stored, list):
            return _BLOCKS.read_tvm(reader, stored, where)
        return reader.loop(stored, where)


Block = Annotated[BlockRV | str, BLOCK]
Loop = Annotated[LoopRV, LOOP]
BlockOrLoop = Annotated[BlockRV | LoopRV | str, _BLOCK_OR_LOOP]
LoopOrBlocks = Annotated[LoopRV | Sequence[BlockRV | str], LoopOrBlocksArgument()]
Blocks = Annotated[Sequence[BlockRV | str], _BLOCKS]
