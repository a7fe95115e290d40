"""Parts of TVM's stored instructions, each checked and read as schedlang's.

The type of an argument says which parts it is read from (``Argument.read_tvm``).
"""

from __future__ import annotations

import math
import re
from typing import Any, cast

from schedlang.errors import TraceFormatError
from schedlang.expressions import IndexMap, IntRV
from schedlang.formats.document import short, want
from schedlang.instructions.handles import BlockRV, Handle, LoopRV
from schedlang.metaschedule.index_maps import read_index_map, read_padding

MOST_INPUTS = 256
_INT32 = 1 << 31
_ROLES = ("read", "write")
_DTYPE = re.compile(r"(u?int|float|bfloat)[0-9]{1,3}(_e[0-9]m[0-9][a-z]{0,4})?|bool")


class ArgumentReader:
    """Reads one part each call; knows the handles by the names that the trace gives them.

    Raises ``TraceFormatError`` with the part's place, ``where``, for what is malformed.
    """

    def __init__(self) -> None:
        self.handles: dict[str, Handle] = {}

    def block(self, stored: Any, where: str) -> BlockRV:
        return cast("BlockRV", self._handle(stored, (BlockRV,), where))

    def loop(self, stored: Any, where: str) -> LoopRV:
        return cast("LoopRV", self._handle(stored, (LoopRV,), where))

    def block_or_loop(self, stored: Any, where: str) -> Handle:
        return self._handle(stored, (BlockRV, LoopRV), where)

    def factor(self, stored: Any, where: str) -> Any:
        if stored == "None":
            return None
        return (
            self._handle(stored, (IntRV,), where)
            if isinstance(stored, str)
            else self.number(stored, where)
        )

    def number(self, stored: Any, where: str) -> int:
        want(stored, int, where)
        if not -_INT32 <= stored < _INT32:
            raise TraceFormatError(where, f"{stored} has more than 32 bits")
        return int(stored)

    def real(self, stored: Any, where: str) -> float:
        if isinstance(stored, bool) or not isinstance(stored, int | float):
            raise TraceFormatError(where, f"{short(repr(stored))} is no number")
        return float(stored)

    def flag(self, stored: Any, where: str) -> bool:
        if isinstance(stored, bool) or (type(stored) is int and stored in (0, 1)):
            return bool(stored)
        raise TraceFormatError(where, f"must be true or false, not {short(repr(stored))}")

    def text(self, stored: Any, where: str) -> str:
        want(stored, str, where)
        if not stored.isprintable() or len(stored) > 1_000:
            raise TraceFormatError(where, f"{short(repr(stored))} is no name")
        return str(stored)

    def quoted(self, stored: Any, where: str) -> str:
        """A text among the inputs, where a bare text is the name of a handle."""
        text = self.text(stored, where)
        if len(text) < 2 or text[0] != '"' or text[-1] != '"':
            raise TraceFormatError(where, f"must be a text in quotes, not {short(text)!r}")
        return text[1:-1]

    def dtype(self, stored: Any, where: str) -> str:
        text = self.text(stored, where)
        if not _DTYPE.fullmatch(text):
            raise TraceFormatError(where, f"{short(text)!r} is no type of elements")
        return text

    def role(self, stored: Any, where: str) -> str:
        return _ROLES[int(self.flag(stored, where))]

    def index_map(self, stored: Any, where: str) -> IndexMap:
        want(stored, str, where)
        return read_index_map(stored, self._variables(), where)

    def padding(self, stored: Any, where: str) -> Any:
        if stored is None:
            return None
        want(stored, str, where)
        return read_padding(stored, self._variables(), where)

    def value(self, stored: Any, where: str) -> Any:
        """What an annotation holds: numbers, texts in quotes, drawn values, lists and dicts."""
        if isinstance(stored, bool | int) or (isinstance(stored, float) and math.isfinite(stored)):
            return stored
        if isinstance(stored, list):
            return [self.value(item, where) for item in stored]
        if isinstance(stored, dict):
            return {key: self.plain(item, where) for key, item in stored.items()}
        if isinstance(stored, str) and stored[:1] != '"':
            return self._handle(stored, (IntRV,), where)
        return self.quoted(stored, where)

    def plain(self, stored: Any, where: str) -> Any:
        """Inside a dict nothing stands for something else."""
        if stored is None or not isinstance(stored, bool | int | float | str):
            raise TraceFormatError(where, f"{short(repr(stored))} cannot be in an annotation")
        return stored

    def items(self, stored: Any, where: str) -> list[Any]:
        want(stored, list, where)
        if len(stored) > MOST_INPUTS:
            raise TraceFormatError(where, f"{len(stored)} items; at most {MOST_INPUTS} are read")
        return cast("list[Any]", stored)

    def _handle(self, stored: Any, kinds: tuple[type, ...], where: str) -> Handle:
        want(stored, str, where)
        handle = self.handles.get(stored)
        if handle is None or not isinstance(handle, kinds):
            known = "another kind of handle" if handle is not None else "not defined before"
            raise TraceFormatError(where, f"{short(stored)!r} is {known}")
        return handle

    def _variables(self) -> dict[str, IntRV]:
        return {name: h for name, h in self.handles.items() if isinstance(h, IntRV)}
