"""The types of arguments that instructions take, one concept a file.

A parameter's annotation chooses its type: one of the names below, or a plain Python type
(``annotations``). The type says how a value is read, checked, printed and stored.
"""

from schedlang.instructions.arguments.annotations import argument_of
from schedlang.instructions.arguments.base import Argument
from schedlang.instructions.arguments.handles import (
    AnyBuffer,
    Block,
    BlockOrLoop,
    Blocks,
    Loop,
    LoopOrBlocks,
    ReadBuffer,
    WriteBuffer,
)
from schedlang.instructions.arguments.index_maps import Map, Padding, Ranges
from schedlang.instructions.arguments.numbers import (
    Bound,
    Factors,
    Integers,
    LevelWeights,
    Probabilities,
)
from schedlang.instructions.arguments.plain import (
    BufferRole,
    DistributionValue,
    DType,
    IntrinsicName,
    Literal,
    Required,
)

__all__ = [
    "AnyBuffer",
    "Argument",
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
