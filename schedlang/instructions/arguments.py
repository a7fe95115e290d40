"""The types of arguments that instructions take, and the one that an annotation means.

A parameter's annotation chooses its type: one of the names that this file exports, or a plain
Python type (``argument_of``). The type says how a value is read, checked, printed and stored.
"""

from __future__ import annotations

import collections.abc
import typing
from typing import Annotated, Any

from schedlang.distributions import Distribution
from schedlang.expressions import IndexMap, IntExpr
from schedlang.instructions.argument import InstructionArgument
from schedlang.instructions.handle_arguments import (
    BLOCK,
    LOOP,
    AnyBuffer,
    Block,
    BlockOrLoop,
    Blocks,
    Loop,
    LoopOrBlocks,
    ReadBuffer,
    WriteBuffer,
)
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.index_map_arguments import Map, MapArgument, Padding, Ranges
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
    Probabilities,
    Required,
    SequenceArgument,
)

__all__ = [
    "AnyBuffer",
    "InstructionArgument",
    "Block",
    "BlockOrLoop",
    "Blocks",
    "Bound",
    "BufferRole",
    "DType",
    "DistributionValue",
    "Factors",
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
