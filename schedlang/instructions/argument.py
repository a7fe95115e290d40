"""``InstructionArgument``: how an argument of an instruction is read, checked, printed and stored.

``TVMReader`` reads the same content from TVM's JSON databases.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Protocol

from schedlang.distributions import Distribution, distribution_to_json
from schedlang.errors import TraceFormatError
from schedlang.expressions import Comparison, IndexMap, IntExpr, IntOp, Predicate
from schedlang.instructions.handles import BlockRV, Handle, LoopRV, ProgramState, handle_name

Expression = int | IntExpr | IndexMap | Predicate
Render = Callable[[Expression], str]


def expression(expr: Expression) -> str:
    """Write an expression or an index map as schedlang's Python."""
    # Python's own min and max would compare the values, and index variables have none.
    text = re.sub(r"\bmin\(", "sl.minimum(", str(expr))
    return re.sub(r"\bmax\(", "sl.maximum(", text)


def tvm_expression(expr: Expression) -> str:
    """Write an expression or an index map as Python that needs TVM alone."""
    if isinstance(expr, IndexMap):
        outputs = [tvm_expression(output) for output in expr.outputs]
        tail = "," if len(outputs) == 1 else ""
        return f"lambda {', '.join(expr.inputs)}: ({', '.join(outputs)}{tail})"
    if isinstance(expr, IntOp):
        left, right = tvm_expression(expr.left), tvm_expression(expr.right)
        if expr.operation in ("min", "max"):
            return f"tvm.tirx.{expr.operation}({left}, {right})"
        return f"({left} {expr.operation} {right})"
    return str(expr)


def literal(content: Any, render: Render = expression) -> str:
    """Write stored content as Python source; ``render`` writes the expressions in it."""
    if isinstance(content, (BlockRV, LoopRV)):
        return handle_name(content)
    if isinstance(content, tuple):
        return "[" + ", ".join(literal(item, render) for item in content) + "]"
    if isinstance(content, dict):
        items = (f"{key!r}: {literal(item, render)}" for key, item in content.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(content, (IntExpr, IndexMap, Predicate)):
        return render(content)
    if isinstance(content, Distribution):
        return f"sl.distribution_from_json({distribution_to_json(content)!r})"
    if isinstance(content, float) and not math.isfinite(content):
        return f'float("{content}")'
    return repr(content)


Earlier = dict[str, Any]
"""Content of the arguments before this one, by parameter name."""

TVMPart = Literal["inputs", "attributes"]

TVMReading = Literal[
    "",
    "block",
    "loop",
    "block_or_loop",
    "factor",
    "number",
    "flag",
    "text",
    "quoted",
    "dtype",
    "index_map",
    "padding",
    "value",
]
"""A method of ``TVMReader``; empty for none."""

_SHOWN = 60


class InstructionArgument(ABC):
    """A type of argument. A parameter's annotation chooses it (``argument_of``).

    The content of an argument is what a trace stores: handles, plain Python values, expressions,
    index maps, distributions, and tuples and dicts of them.

    Attributes
    ----------
    name: of the type, in messages.
    takes: what a user may pass, for the reference.
    stored: types that the content may have; empty for any.
    takes_drawn: TVM's primitives take a drawn value here; elsewhere they take its number.
    tvm_reading: how it is read from there; empty for a type that overrides ``read_tvm``.
    tvm_part: where TVM's traces store it by default; ``None`` where TVM has no such argument.
    tvm_width: number of inputs or attributes that it occupies there.
    tvm_spread: a list that occupies all inputs that are left.
    """

    name: str
    takes: str
    stored: tuple[type, ...] = ()
    takes_drawn: bool = False
    tvm_reading: TVMReading = ""
    tvm_part: TVMPart | None = None
    tvm_width: int = 1
    tvm_spread: bool = False

    @abstractmethod
    def accept(self, state: ProgramState, value: Any, earlier: Earlier) -> Any:
        """Return the content of a value that a user gave.

        Raises ``BadArgument`` for a value that this type does not take.
        """

    def check_stored(self, content: Any, where: str) -> None:
        """Raise ``TraceFormatError`` for content, read from a file, of the wrong type.

        What the content means is checked when the instruction is applied.
        """
        if not self.stored:
            return
        if not is_of(content, self.stored):
            raise TraceFormatError(where, f"must be of kind {self.name}, not {shown(content)}")

    def as_python(self, content: Any) -> str:
        """Write the content as schedlang's Python."""
        return literal(content)

    def as_tvm_python(self, content: Any) -> str:
        """Write the content as Python that needs TVM alone."""
        return literal(content, tvm_expression)

    def read_tvm(self, reader: TVMReader, stored: Any, where: str) -> Any:
        """Return the value that a trace of TVM's JSON databases stores.

        Raises ``TraceFormatError`` for what is not of this type. Only for types with a
        ``tvm_part``.
        """
        if not self.tvm_reading:
            raise TypeError(f"TVM's traces store no argument of kind {self.name}")
        return getattr(reader, self.tvm_reading)(stored, where)


def is_of(value: Any, types: tuple[type, ...]) -> bool:
    """Return whether a value is of one of some types; a bool counts as an int nowhere."""
    return isinstance(value, types) and (bool in types or not isinstance(value, (bool, Comparison)))


def shown(value: Any) -> str:
    """Show a value in a message, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def described(value: Any) -> str:
    """Show a value with its type in a message, cut where it is long."""
    return f"{type(value).__name__} {shown(value)}"


# -- ``TVMReader``, which reads the parts of a trace from TVM's JSON databases --------------------


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
