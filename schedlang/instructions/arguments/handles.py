"""Arguments that are blocks and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from schedlang.instructions.arguments.base import Argument, Earlier, described
from schedlang.instructions.arguments.sequences import SequenceArgument
from schedlang.instructions.arguments.tvm_reader import TVMReader
from schedlang.instructions.handles import BlockRV, Handle, LoopRV
from schedlang.instructions.state import BadArgument, ProgramState


class BlockArgument(Argument):
    """A block; a user may give its name, which is looked up."""

    name = "block"
    takes = "a `BlockRV`, or a block's name"
    stored = (BlockRV,)
    tvm_part = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> BlockRV:
        if isinstance(value, str):
            return state.get_block(value)
        if isinstance(value, BlockRV):
            return state.own(value)
        raise BadArgument(f"takes a block (BlockRV, or its name), not {described(value)}")

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> BlockRV:
        return reader.block(stored, where)


class LoopArgument(Argument):
    """A loop."""

    name = "loop"
    takes = "a `LoopRV`"
    stored = (LoopRV,)
    tvm_part = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> LoopRV:
        if isinstance(value, LoopRV):
            return state.own(value)
        hint = "; get_loops returns a list: pass one of them" if isinstance(value, list) else ""
        raise BadArgument(f"takes a loop (LoopRV), not {described(value)}{hint}")

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> LoopRV:
        return reader.loop(stored, where)


class BlockOrLoopArgument(Argument):
    """A block or a loop."""

    name = "block or loop"
    takes = "a `BlockRV`, a `LoopRV`, or a block's name"
    stored = (BlockRV, LoopRV)
    tvm_part = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> BlockRV | LoopRV:
        if isinstance(value, (BlockRV, LoopRV)):
            return state.own(value)
        if isinstance(value, str):
            return state.get_block(value)
        raise BadArgument(f"takes a block or a loop, not {described(value)}")

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> Handle:
        return reader.block_or_loop(stored, where)


_BLOCK = BlockArgument()
_LOOP = LoopArgument()
_BLOCKS = SequenceArgument(_BLOCK, takes="a list of blocks")


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
            return tuple(_BLOCK.accept(state, item, earlier) for item in value)
        raise BadArgument(f"takes a loop or a list of blocks, not {described(value)}")

    def check_stored(self, content: Any, where: str) -> None:
        super().check_stored(content, where)
        if isinstance(content, tuple):
            _BLOCKS.check_stored(content, where)

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> Any:
        if isinstance(stored, list):
            return _BLOCKS.read_tvm(reader, stored, where)
        return reader.loop(stored, where)


Block = Annotated[BlockRV | str, _BLOCK]
Loop = Annotated[LoopRV, _LOOP]
BlockOrLoop = Annotated[BlockRV | LoopRV | str, BlockOrLoopArgument()]
LoopOrBlocks = Annotated[LoopRV | Sequence[BlockRV | str], LoopOrBlocksArgument()]
Blocks = Annotated[Sequence[BlockRV | str], _BLOCKS]
