"""Arguments that are lists of another type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from schedlang.instructions.arguments.base import Argument, Earlier, described
from schedlang.instructions.arguments.tvm_reader import TVMReader
from schedlang.instructions.state import BadArgument, ProgramState


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
