"""Arguments that are plain Python values, lists of another type, or anything a trace can store."""

from __future__ import annotations

from collections.abc import Sequence
from types import NoneType
from typing import Annotated, Any

import numpy as np

from schedlang.distributions import Distribution
from schedlang.expressions import (
    Comparison,
    IndexMap,
    IntExpr,
    Predicate,
    as_plain,
    random_variables,
)
from schedlang.instructions.arguments.base import (
    Argument,
    Earlier,
    TVMPart,
    TVMReading,
    described,
    is_of,
)
from schedlang.instructions.arguments.tvm_reader import TVMReader
from schedlang.instructions.handles import BlockRV, LoopRV
from schedlang.instructions.state import BadArgument, ProgramState


class PlainArgument(Argument):
    """A value of one of the types ``stored``, which a trace stores as it is.

    ``wanted`` says in messages what it takes; the other parameters are the class's attributes.
    """

    def __init__(
        self,
        name: str,
        takes: str,
        wanted: str,
        stored: tuple[type, ...],
        tvm_reading: TVMReading = "",
        tvm_part: TVMPart | None = None,
    ) -> None:
        self.name = name
        self.takes = takes
        self.wanted = wanted
        self.stored = stored
        self.tvm_reading = tvm_reading
        self.tvm_part = tvm_part

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        value = as_plain(value)
        if is_of(value, self.stored):
            return value
        raise BadArgument(f"takes {self.wanted}, not {described(value)}")


BOOL = PlainArgument("bool", "`True` or `False`", "True or False", (bool,), "flag", "attributes")
TEXT = PlainArgument("string", "a `str`", "a string", (str,), "text", "attributes")
OPTIONAL_TEXT = PlainArgument(
    "string or None", "a `str` or `None`", "a string", (str, NoneType), "text", "attributes"
)
NUMBER = PlainArgument("number", "a number", "a number", (int, float))
DISTRIBUTION = PlainArgument("distribution", "a `Distribution`", "a Distribution", (Distribution,))
INTRINSIC = PlainArgument(
    "string", "the name of a tensor intrinsic", "a string", (str,), "text", "attributes"
)
_DTYPE = PlainArgument(
    "string", "an element type, such as `float16`", "a string", (str,), "dtype", "attributes"
)
_ROLE = PlainArgument("string", '`"read"` or `"write"`', "a string", (str,), "quoted", "inputs")

DType = Annotated[str, _DTYPE]
BufferRole = Annotated[str, _ROLE]
IntrinsicName = Annotated[str, INTRINSIC]
DistributionValue = Annotated[Distribution, DISTRIBUTION]


class SequenceArgument(Argument):
    """A list whose items are all of one type.

    Parameters
    ----------
    item: the type of the items.
    items: how messages name the items; by default the plural of the type's name.
    takes: what a user may pass, for the reference.
    """

    stored = (tuple,)

    def __init__(self, item: Argument, items: str = "", takes: str = "") -> None:
        self.item = item
        self.items = items or f"{item.name}s"
        self.name = f"list of {item.name}s"
        self.takes = takes
        self.tvm_part = item.tvm_part

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> tuple[Any, ...]:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise BadArgument(f"takes a list of {self.items}, not {described(value)}")
        accept = self.item.accept
        return tuple(accept(state, item, earlier) for item in value)

    def check_stored(self, content: Any, where: str) -> None:
        super().check_stored(content, where)
        for position, item in enumerate(content):
            self.item.check_stored(item, f"{where}[{position}]")

    def as_python(self, content: Any) -> str:
        return "[" + ", ".join(map(self.item.as_python, content)) + "]"

    def as_tvm_python(self, content: Any) -> str:
        return "[" + ", ".join(map(self.item.as_tvm_python, content)) + "]"

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> list[Any]:
        items = enumerate(reader.items(stored, where))
        return [self.item.read_tvm(reader, item, f"{where}[{k}]") for k, item in items]


class LiteralArgument(Argument):
    """Anything that a trace can store, including values of no other argument type."""

    name = "literal"
    takes = "anything that a trace can store: numbers, strings, handles, lists, dicts"
    takes_drawn = True
    tvm_reading: TVMReading = "value"
    tvm_part: TVMPart | None = "inputs"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        if value is None or isinstance(value, (bool, int, float, str, Distribution)):
            return as_plain(value)
        if isinstance(value, (BlockRV, LoopRV)):
            return state.own(value)
        if isinstance(value, IntExpr):
            return state.own_expr(value)
        if isinstance(value, IndexMap):
            return own_map(state, value)
        if isinstance(value, (list, tuple)):
            return tuple(self.accept(state, item, earlier) for item in value)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise BadArgument(f"takes dicts with string keys, not {described(key)}")
            return {key: self.accept(state, value[key], earlier) for key in sorted(value)}
        raise BadArgument(f"cannot be stored in a trace: {described(value)}")


def own_map(state: ProgramState, value: IndexMap) -> IndexMap:
    """Return an index map as a trace stores it, if its random variables belong to the program."""
    value = value.with_plain_names()
    outputs = (state.own_expr(e) if isinstance(e, IntExpr) else e for e in value.outputs)
    return IndexMap(value.inputs, tuple(outputs))


Literal = Annotated[Any, LiteralArgument()]


class ConditionArgument(Argument):
    """What must be true: a comparison of drawn integers, which each replay makes again."""

    name = "condition"
    takes = "a comparison of `IntRV`, or several joined; or a `bool`"
    stored = (bool, Predicate)

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> bool | Predicate:
        if not isinstance(value, Comparison):
            if isinstance(value, (bool, np.bool_)):
                return bool(value)
            raise BadArgument(f"takes a comparison or a bool, not {described(value)}")
        if value.condition is None:
            raise BadArgument(
                "compares with a value that is no integer: give whole numbers, or a bool"
            )
        for variable in random_variables(value.condition):
            state.own(variable)
        return value.condition


Required = Annotated[bool | int, ConditionArgument()]
