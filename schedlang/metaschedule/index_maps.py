"""Index maps as TVM's traces store them: JSON of a graph of nodes, read here without TVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from schedlang.errors import TraceFormatError
from schedlang.expressions import IndexMap, IndexVar, IntExpr, IntOp, IntRV
from schedlang.formats.document import parse, short, want

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
