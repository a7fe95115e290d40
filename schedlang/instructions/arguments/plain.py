"""Arguments that are plain Python values: booleans, strings, numbers and distributions."""

from __future__ import annotations

from types import NoneType
from typing import Annotated, Any

from schedlang.distributions import Distribution
from schedlang.instructions.arguments.base import (
    Argument,
    Earlier,
    TVMPart,
    TVMReading,
    described,
    is_of,
)
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
