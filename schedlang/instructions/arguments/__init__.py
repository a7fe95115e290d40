"""The types of arguments that instructions take, one concept a file.

A parameter's annotation chooses its type: one of the names below, or a plain Python type
(``annotations``). The type says how a value is read, checked, printed and stored.
"""

from schedlang.instructions.arguments.annotations import argument_of
from schedlang.instructions.arguments.base import Argument
from schedlang.instructions.arguments.buffers import AnyBuffer, ReadBuffer, WriteBuffer
from schedlang.instructions.arguments.handles import (
    Block,
    BlockOrLoop,
    Blocks,
    Loop,
    LoopOrBlocks,
)
from schedlang.instructions.arguments.index_maps import Map, Padding, Ranges
from schedlang.instructions.arguments.literals import Literal
from schedlang.instructions.arguments.numbers import Bound, Factors, Integers, Probabilities
from schedlang.instructions.arguments.plain import (
    BufferRole,
    DistributionValue,
    DType,
    IntrinsicName,
)
from schedlang.instructions.arguments.weights import LevelWeights

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
    "WriteBuffer",
    "argument_of",
]
