"""``TVMReader``, which reads the parts of a trace from TVM's JSON databases."""

from __future__ import annotations

from typing import Any, Protocol

from schedlang.expressions import IndexMap
from schedlang.instructions.handles import BlockRV, Handle, LoopRV


class TVMReader(Protocol):
    """Reads one part each call; ``TraceFormatError`` with its place for what is malformed.

    ``schedlang.metaschedule.arguments`` implements it.
    """

    def block(self, stored: Any, where: str) -> BlockRV:
        """Read a block's name."""
        ...

    def loop(self, stored: Any, where: str) -> LoopRV:
        """Read a loop's name."""
        ...

    def block_or_loop(self, stored: Any, where: str) -> Handle:
        """Read a block's or a loop's name."""
        ...

    def factor(self, stored: Any, where: str) -> Any:
        """Read a number, the name of a drawn value, or None."""
        ...

    def items(self, stored: Any, where: str) -> list[Any]:
        """Read a list; its items are still as stored."""
        ...

    def number(self, stored: Any, where: str) -> int:
        """Read an integer of at most 32 bits."""
        ...

    def real(self, stored: Any, where: str) -> float:
        """Read an integer or a floating-point number."""
        ...

    def flag(self, stored: Any, where: str) -> bool:
        """Read a boolean."""
        ...

    def text(self, stored: Any, where: str) -> str:
        """Read a text among the attributes."""
        ...

    def quoted(self, stored: Any, where: str) -> str:
        """Read a text among the inputs, where a bare text is the name of a handle."""
        ...

    def dtype(self, stored: Any, where: str) -> str:
        """Read the name of an element type."""
        ...

    def role(self, stored: Any, where: str) -> str:
        """Read whether a block reads or writes a buffer: ``"read"`` or ``"write"``."""
        ...

    def index_map(self, stored: Any, where: str) -> IndexMap:
        """Read an index map."""
        ...

    def padding(self, stored: Any, where: str) -> Any:
        """Read a padding value: None, a number or an index map."""
        ...

    def value(self, stored: Any, where: str) -> Any:
        """Read the value of an annotation."""
        ...
