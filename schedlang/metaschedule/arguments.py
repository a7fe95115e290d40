"""Parts of TVM's stored instructions, each checked and read as schedlang's.

The type of an argument says which parts it is read from (``InstructionArgument.read_tvm``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, cast

from schedlang.errors import TraceFormatError
from schedlang.expressions import IndexMap, IndexVar, IntExpr, IntOp, IntRV
from schedlang.instructions.handles import BlockRV, Handle, LoopRV
from schedlang.interpreters.document import parse, short, want

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


# -- Index maps as TVM's traces store them: JSON of a graph of nodes ------------------------------

_OPERATIONS = {
    "prim.Add": "+",
    "prim.Sub": "-",
    "prim.Mul": "*",
    "prim.FloorDiv": "//",
    "prim.FloorMod": "%",
    "prim.Min": "min",
    "prim.Max": "max",
}
_MOST_OPERATIONS = 1_000
_MOST_DEEP = 64


def read_index_map(text: str, variables: Mapping[str, IntRV], where: str) -> IndexMap:
    """Return the map; ``variables`` are the random variables by their names in the trace.

    Raises ``TraceFormatError`` for what is no index map, or has an expression that ours cannot
    hold.
    """
    graph = _Graph(text, where)
    inputs, outputs = graph.fields()
    names = [graph.variable_name(number) for number in inputs]
    positions = {number: position for position, number in enumerate(inputs)}

    def convert(number: int, depth: int) -> int | IntExpr:
        if number in positions:
            return IndexVar(positions[number], names[positions[number]])
        graph.count(depth)
        kind = graph.kind(number)
        if kind == "ir.Var":
            name = graph.variable_name(number)
            if name not in variables:
                raise graph.refuse(f"variable {short(name)!r} is neither an index nor drawn before")
            return variables[name]
        if kind == "ir.IntImm":
            return graph.integer(number)
        if kind not in _OPERATIONS:
            raise graph.refuse(f"an index map cannot hold {short(kind)}")
        left, right = graph.operands(number)
        return IntOp(_OPERATIONS[kind], convert(left, depth + 1), convert(right, depth + 1))

    return IndexMap(tuple(names), tuple(convert(number, 0) for number in outputs))


def read_padding(text: str, variables: Mapping[str, IntRV], where: str) -> int | float | IndexMap:
    """Return a padding value: a number if the map gives one constant, else the map."""
    graph = _Graph(text, where)
    _, outputs = graph.fields()
    if len(outputs) == 1 and graph.kind(outputs[0]) == "ir.FloatImm":
        return graph.real(outputs[0])
    if len(outputs) == 1 and graph.kind(outputs[0]) == "ir.IntImm":
        return graph.integer(outputs[0])
    return read_index_map(text, variables, where)


class _Graph:
    """The nodes by number; every access checks the node's type."""

    def __init__(self, text: str, where: str) -> None:
        self.where = where
        self.counted = 0
        document = parse(text)
        want(document, dict, where)
        self.nodes = document.get("nodes")
        want(self.nodes, list, f"{where}.nodes")
        self.root = document.get("root_index")

    def refuse(self, problem: str) -> TraceFormatError:
        return TraceFormatError(self.where, problem)

    def node(self, number: Any) -> dict[str, Any]:
        if type(number) is not int or not 0 <= number < len(self.nodes):
            raise self.refuse(f"there is no node {short(number)}")
        found = self.nodes[number]
        if not isinstance(found, dict) or not isinstance(found.get("type"), str):
            raise self.refuse(f"node {number} has no type")
        return found

    def kind(self, number: Any) -> str:
        return str(self.node(number)["type"])

    def data(self, number: Any, kind: str, form: type) -> Any:
        node = self.node(number)
        if node["type"] != kind or type(node.get("data")) is not form:
            raise self.refuse(f"node {number} must be of type {kind}, not {short(node['type'])}")
        return node["data"]

    def fields(self) -> tuple[list[int], list[int]]:
        """Return the numbers of the input nodes and of the output nodes."""
        found = self.data(self.root, "tirx.IndexMap", dict)
        inputs = self.data(found.get("initial_indices"), "ffi.Array", list)
        outputs = self.data(found.get("final_indices"), "ffi.Array", list)
        if len(set(map(repr, inputs))) != len(inputs):
            raise self.refuse("an index comes twice")
        return inputs, outputs

    def variable_name(self, number: Any) -> str:
        return str(self.data(self.data(number, "ir.Var", dict).get("name"), "ffi.String", str))

    def integer(self, number: Any) -> int:
        return int(self.data(self.data(number, "ir.IntImm", dict).get("value"), "int", int))

    def real(self, number: Any) -> float:
        value = self.data(number, "ir.FloatImm", dict).get("value")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.refuse(f"{short(value)} is no number")
        return float(value)

    def operands(self, number: Any) -> tuple[Any, Any]:
        found = self.data(number, self.kind(number), dict)
        return found.get("a"), found.get("b")

    def count(self, depth: int) -> None:
        self.counted += 1
        if depth > _MOST_DEEP or self.counted > _MOST_OPERATIONS:
            raise self.refuse("the expressions are too large")
