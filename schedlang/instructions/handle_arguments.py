"""Arguments that are blocks, loops, and buffers of the block in an argument before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

from schedlang.errors import TraceFormatError
from schedlang.instructions.argument import (
    Earlier,
    InstructionArgument,
    TVMReader,
    described,
    is_of,
    shown,
)
from schedlang.instructions.handles import BadArgument, BlockRV, LoopRV, ProgramState
from schedlang.instructions.value_arguments import PlainArgument, SequenceArgument
from schedlang.tvm import analysis
from schedlang.tvm import schedule as tvm_schedule


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


class LoopOrBlocksArgument(InstructionArgument):
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


Role = Literal["read", "write"]


class BufferNumberArgument(InstructionArgument):
    """The index of a buffer among the block's reads or writes, or its name."""

    stored = (int,)
    tvm_reading = "number"
    tvm_part = "attributes"

    def __init__(self, role: Role) -> None:
        self.role = role
        self.name = f"{role} buffer"
        self.takes = f"number or name of a buffer that the block {role}s"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> int:
        if isinstance(value, str):
            return _number_of(state, value, earlier, (self.role,))[1]
        if is_of(value, self.stored):
            return cast(int, value)
        raise BadArgument(f"takes a plain int, not {described(value)}")


class BufferArgument(InstructionArgument):
    """A buffer that the block reads or writes, as ``(role, number)``; or its name."""

    name = "buffer"
    takes = '`("read", number)`, `("write", number)`, or a buffer\'s name'
    stored = (tuple,)
    tvm_part = "attributes"
    tvm_width = 2

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> tuple[str, int]:
        if isinstance(value, str):
            return _number_of(state, value, earlier, ("write", "read"))
        if (
            isinstance(value, (tuple, list))
            and len(value) == 2
            and value[0] in ("read", "write")
            and type(value[1]) is int
        ):
            try:
                tvm_schedule.buffer_of(state.raw, state.raw_value(earlier["block"]), *value)
            except IndexError as error:
                raise BadArgument(str(error)) from None
            return (value[0], value[1])
        raise BadArgument(
            f'takes a buffer name or ("read" or "write", index), not {described(value)}'
        )

    def check_stored(self, content: Any, where: str) -> None:
        super().check_stored(content, where)
        if len(content) != 2 or content[0] not in ("read", "write") or type(content[1]) is not int:
            raise TraceFormatError(where, f"must be a role and a number, not {shown(content)}")

    def as_python(self, content: Any) -> str:
        role, number = content
        return f'("{role}", {number})'

    def as_tvm_python(self, content: Any) -> str:
        return self.as_python(content)

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> tuple[str, int]:
        number, role = stored
        return reader.role(role, where), reader.number(number, where)


def _number_of(
    state: ProgramState, name: str, earlier: Earlier, roles: tuple[Role, ...]
) -> tuple[Role, int]:
    """Return the role and the number of the buffer called ``name``; try the roles in order."""
    block = state.raw_value(earlier["block"])
    reasons = []
    for role in roles:
        try:
            return role, analysis.buffer_index(state.raw, block, name, role)
        except ValueError as error:
            reasons.append(str(error))
    raise BadArgument("; ".join(reasons))


ReadBuffer = Annotated[int | str, BufferNumberArgument("read")]
WriteBuffer = Annotated[int | str, BufferNumberArgument("write")]
AnyBuffer = Annotated[tuple[str, int] | str, BufferArgument()]
