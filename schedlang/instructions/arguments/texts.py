"""Arguments that are booleans and strings."""

from __future__ import annotations

from typing import Annotated, Any

from schedlang.instructions.arguments.base import Argument, Earlier, TVMPart, described
from schedlang.instructions.arguments.tvm_reader import TVMReader
from schedlang.instructions.state import BadArgument, ProgramState


class BoolArgument(Argument):
    """True or False."""

    name = "bool"
    takes = "`True` or `False`"
    stored = (bool,)
    tvm_part = "attributes"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> bool:
        if isinstance(value, bool):
            return value
        raise BadArgument(f"takes True or False, not {described(value)}")

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> bool:
        return reader.flag(stored, where)


class TextArgument(Argument):
    """A string."""

    name = "string"
    takes = "a `str`"
    stored: tuple[type, ...] = (str,)
    tvm_part: TVMPart | None = "attributes"

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> str | None:
        if isinstance(value, str):
            return value
        raise BadArgument(f"takes a string, not {described(value)}")

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> str:
        return reader.text(stored, where)


class OptionalTextArgument(TextArgument):
    """A string or None."""

    name = "string or None"
    takes = "a `str` or `None`"
    stored = (str, type(None))

    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> str | None:
        return None if value is None else super().accept(state, value, earlier)


class DTypeArgument(TextArgument):
    """The name of an element type."""

    takes = "an element type, such as `float16`"

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> str:
        return reader.dtype(stored, where)


class RoleArgument(TextArgument):
    """Whether a block reads or writes a buffer."""

    takes = '`"read"` or `"write"`'
    tvm_part = "inputs"

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> str:
        return reader.quoted(stored, where)


class IntrinsicArgument(TextArgument):
    """The name of a tensor intrinsic."""

    takes = "the name of a tensor intrinsic"


DType = Annotated[str, DTypeArgument()]
BufferRole = Annotated[str, RoleArgument()]
IntrinsicName = Annotated[str, IntrinsicArgument()]
