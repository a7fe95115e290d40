"""The types of arguments that instructions take, and the one that an annotation means.

A parameter's annotation chooses its type: one of the names that this file exports, or a plain
Python type (``argument_of``). The type says how a value is read, checked, printed and stored.
"""

from __future__ import annotations

import collections.abc
import functools
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any, cast

from schedlang.distributions import Distribution
from schedlang.errors import SchedlangError, TraceFormatError
from schedlang.expressions import IndexMap, IntExpr
from schedlang.instructions.argument import (
    Earlier,
    InstructionArgument,
    Render,
    TVMReader,
    described,
    expression,
    is_of,
    shown,
    tvm_expression,
)
from schedlang.instructions.handles import BadArgument, BlockRV, LoopRV, ProgramState
from schedlang.instructions.value_arguments import (
    BOOL,
    DISTRIBUTION,
    NUMBER,
    OPTIONAL_TEXT,
    TEXT,
    Bound,
    BufferRole,
    DistributionValue,
    DType,
    Factors,
    IntegerArgument,
    Integers,
    IntrinsicName,
    LevelWeights,
    Literal,
    LiteralArgument,
    PlainArgument,
    Probabilities,
    Required,
    SequenceArgument,
    own_map,
)
from schedlang.tvm import analysis, schedule as tvm_schedule
from schedlang.tvm.values import element_of, index_map_from_tvm

__all__ = [
    "AnyBuffer",
    "Block",
    "BlockOrLoop",
    "Blocks",
    "Bound",
    "BufferRole",
    "DType",
    "DistributionValue",
    "Factors",
    "InstructionArgument",
    "Integers",
    "IntrinsicName",
    "LevelWeights",
    "Literal",
    "Loop",
    "LoopOrBlocks",
    "Map",
    "Padding",
    "Probabilities",
    "Ranges",
    "ReadBuffer",
    "Required",
    "WriteBuffer",
    "argument_of",
]


# -- Arguments that are blocks, loops, and buffers of the block in an argument before them --------


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


Role = typing.Literal["read", "write"]


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


# -- Arguments that are functions of indices ------------------------------------------------------


class MapArgument(InstructionArgument):
    """A map from indices, of the buffer or the block in the arguments before, to others."""

    name = "index map"
    takes = "a function of indices that returns a tuple of indices, or an `IndexMap`"
    stored = (IndexMap,)
    tvm_reading = "index_map"
    tvm_part = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> IndexMap:
        if hasattr(value, "final_indices"):
            try:
                value = index_map_from_tvm(value)
            except TypeError as error:
                raise BadArgument(str(error)) from None
        elif not isinstance(value, IndexMap):
            if not callable(value):
                raise BadArgument(
                    f"takes a function of indices or an IndexMap, not {described(value)}"
                )
            value = _traced(value, _dimensions(state, earlier))
        return own_map(state, value)


class RangesArgument(InstructionArgument):
    """A function of the block's variables that gives an index or a range in each dimension.

    It is stored as an index map with two outputs, begin and end, for each dimension.
    """

    name = "ranges"
    takes = "a function of the block's variables; an index or a `(begin, end)` a dimension"
    stored = (IndexMap,)

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> IndexMap:
        if not isinstance(value, IndexMap):
            if not callable(value):
                raise BadArgument(
                    f"takes a function of the block's variables, not {described(value)}"
                )
            value = _traced(_begins_and_ends(value), _dimensions(state, earlier))
        elif len(value.outputs) % 2:
            raise BadArgument(f"takes a begin and an end for each dimension, not {value}")
        return own_map(state, value)

    def check_stored(self, content: Any, where: str) -> None:
        super().check_stored(content, where)
        if len(content.outputs) % 2:
            raise TraceFormatError(where, "must have a begin and an end for each dimension")

    def as_python(self, content: Any) -> str:
        return _pairs(content, expression)

    def as_tvm_python(self, content: Any) -> str:
        return _pairs(content, tvm_expression)


class PaddingArgument(InstructionArgument):
    """The fill value of elements that exist only in the new layout."""

    name = "padding"
    takes = "a number, a function of the new indices, or `None`"
    stored = (int, float, IndexMap, type(None))
    tvm_reading = "padding"
    tvm_part = "attributes"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        if value is None:
            return None
        if is_of(value, (int, float)):
            role, index = earlier["buffer"]
            block = state.raw_value(earlier["block"])
            buffer = tvm_schedule.buffer_of(state.raw, block, role, index)
            try:
                return element_of(value, str(buffer.ty.dtype))
            except (ValueError, OverflowError) as error:
                raise BadArgument(str(error)) from None
        if not isinstance(value, IndexMap):
            if isinstance(value, str) or not callable(value):
                raise BadArgument(
                    f"takes a number or a function of indices, not {described(value)}"
                )
            value = _traced(value, len(earlier["index_map"].outputs))
        return own_map(state, value)


def _traced(function: Callable[..., Any], dimensions: int | None) -> IndexMap:
    try:
        return IndexMap.from_function(function, dimensions)
    except SchedlangError:
        raise
    except Exception as error:  # the function is the user's
        why = str(error) if isinstance(error, TypeError) else f"{type(error).__name__}: {error}"
        raise BadArgument(why) from error


def _dimensions(state: ProgramState, earlier: Earlier) -> int | None:
    """Return the number of indices of the buffer, or of the block, in the arguments before."""
    block = earlier.get("block")
    if block is None:
        return None
    raw_block = state.raw_value(block)
    if "buffer" in earlier:
        role, position = earlier["buffer"]
        return len(tvm_schedule.buffer_of(state.raw, raw_block, role, position).ty.shape)
    facts = analysis.block_facts(state.raw, raw_block)
    return len(facts.spatial_extents) + len(facts.reduction_extents)


def _begins_and_ends(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    @functools.wraps(function)  # its variables keep their names
    def flattened(*indices: Any) -> tuple[Any, ...]:
        flat: list[Any] = []
        given = function(*indices)
        for item in given if isinstance(given, (tuple, list)) else (given,):
            if isinstance(item, (tuple, list)):
                if len(item) != 2:
                    raise TypeError(f"a range is a (begin, end) pair, got {item!r}")
                flat += item
            else:
                flat += [item, item + 1]
        return tuple(flat)

    return flattened


def _pairs(index_map: IndexMap, render: Render) -> str:
    """Write a function from a block's variables to one (begin, end) pair in each dimension."""
    ends = iter(index_map.outputs)
    pairs = [f"({render(begin)}, {render(end)})" for begin, end in zip(ends, ends, strict=True)]
    return f"lambda {', '.join(index_map.inputs)}: ({', '.join(pairs)},)"


Map = Annotated[IndexMap | Callable[..., Any], MapArgument()]
Ranges = Annotated[IndexMap | Callable[..., Any], RangesArgument()]
Padding = Annotated[int | float | IndexMap | Callable[..., Any] | None, PaddingArgument()]


_PLAIN: dict[Any, InstructionArgument] = {
    BlockRV: BLOCK,
    LoopRV: LOOP,
    int: IntegerArgument(),
    bool: BOOL,
    str: TEXT,
    float: NUMBER,
    IndexMap: MapArgument(),
    Distribution: DISTRIBUTION,
    (str | None): OPTIONAL_TEXT,
    (int | IntExpr): IntegerArgument(),
}
_LITERAL = LiteralArgument()


def argument_of(annotation: Any) -> InstructionArgument:
    """Return the type of argument that an annotation stands for.

    An ``Annotated`` type names it; a list or sequence is one of its items' type; any other
    annotation that is not known takes anything that a trace can store.
    """
    if typing.get_origin(annotation) is Annotated:
        for extra in typing.get_args(annotation)[1:]:
            if isinstance(extra, InstructionArgument):
                return extra
    origin = typing.get_origin(annotation)
    if origin in (list, collections.abc.Sequence):
        return SequenceArgument(argument_of(typing.get_args(annotation)[0]))
    try:
        return _PLAIN.get(annotation, _LITERAL)
    except TypeError:
        return _LITERAL
