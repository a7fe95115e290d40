"""Index arithmetic of a program as terms of a graph, in a normal form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import tvm
from tvm import tirx
from tvm.error import InternalError
from tvm.sym import Analyzer

from schedlang.tvm.errors import comes_back
from schedlang.tvm.graph.canonical import Graph
from schedlang.tvm.values import COMPARISONS, constant, operands_of

COMMUTATIVE: dict[type, str] = {
    tirx.Add: "add", tirx.Mul: "mul", tirx.Min: "min", tirx.Max: "max",
    tirx.And: "and", tirx.Or: "or", tirx.EQ: "eq", tirx.NE: "ne",
}  # fmt: skip
ORDERED: dict[type, str] = {
    tirx.Sub: "sub", tirx.Div: "div", tirx.Mod: "mod",
    tirx.FloorDiv: "floordiv", tirx.FloorMod: "floormod", tirx.LT: "lt", tirx.LE: "le",
}  # fmt: skip
FLIPPED: dict[type, str] = {tirx.GT: "lt", tirx.GE: "le"}
BINARY = COMMUTATIVE | ORDERED | FLIPPED
INDEX_DTYPES = ("int32", "int64")
# Deeper expressions would come near Python's recursion limit.
DEEPEST = 100


@comes_back
class Unencodable(Exception):
    """A construct that the graph has no terms for."""


class IndexArithmetic:
    """Encodes integers and conditions over axes and constants.

    TVM's analyzer simplifies them using the ranges of the axes. Sums are flattened (integer
    addition is associative), and comparisons are brought to one side.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._nodes: dict[Any, int] = {}
        self._substitutes: dict[Any, Any] = {}
        self._analyzer = Analyzer()
        self._bound: set[Any] = set()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a scope; axes defined inside are forgotten at its end."""
        outer = self._nodes, self._substitutes, self._bound, self._analyzer
        self._nodes, self._substitutes = dict(self._nodes), dict(self._substitutes)
        self._bound, self._analyzer = set(self._bound), self._analyzer.clone()
        yield
        self._nodes, self._substitutes, self._bound, self._analyzer = outer

    def define_axis(self, variables: Iterable[Any], label: str, low: Any, extent: Any) -> int:
        """Add one leaf for variables that run together over ``low <= v < low + extent``."""
        node = self._graph.leaf(label)
        for variable in variables:
            self._bind(variable, tvm.ir.Range.from_min_extent(low, extent))
            self._nodes[variable] = node
        return node

    def substitute(self, variable: Any, expression: Any) -> None:
        """Replace a variable by an expression from now on."""
        self._bind(variable, expression)
        self._substitutes[variable] = expression

    def _bind(self, variable: Any, meaning: Any) -> None:
        if variable in self._bound:
            raise Unencodable(f"{variable} is bound twice")
        self._bound.add(variable)
        self._analyzer.bind(variable, meaning)

    def encode(self, expression: Any) -> int:
        """Return the node of an expression for which ``is_index_arithmetic`` holds."""
        if str(expression.ty) == "bool":
            return self._condition(expression, negated=False)
        if not isinstance(expression, tirx.Var | tirx.IntImm):
            expression = self._simplify(expression)
        return self._simplified(expression)

    def _simplify(self, expression: Any) -> Any:
        try:
            return self._analyzer.simplify(expression)
        except InternalError as error:
            raise Unencodable(f"{expression}, which divides by 0") from error

    def _simplified(self, expression: Any) -> int:
        """Return the node of a simplified integer: a constant plus multiples of atoms."""
        if str(expression.ty) == "bool":
            return self._condition(expression, negated=False)
        return self._sum(*self._linear(expression), str(expression.ty))

    def _sum(self, terms: dict[int, int], offset: int, dtype: str) -> int:
        if not terms:
            return self._graph.term(f"int {dtype} {offset}")
        nodes = [
            atom if factor == 1 else self._graph.term(f"index times {factor}", (atom,))
            for atom, factor in terms.items()
        ]
        if len(nodes) == 1 and offset == 0:
            return nodes[0]
        return self._graph.term(f"index sum {dtype} {offset}", (), nodes)

    def _linear(self, expression: Any) -> tuple[dict[int, int], int]:
        """Return the factor of each atom, and the constant term."""
        kind = type(expression)
        if kind is tirx.IntImm:
            return {}, int(expression.value)
        if kind is tirx.Var and expression in self._substitutes:
            return self._linear(self._substitutes[expression])
        if kind is tirx.Var:
            if expression not in self._nodes:
                raise Unencodable(f"{expression} is not an axis of the program")
            return {self._nodes[expression]: 1}, 0
        dtype = str(expression.ty)
        if kind is tirx.Cast:
            operand = self._simplified(expression.value)
            return {self._graph.term(f"index cast {dtype}", (operand,)): 1}, 0
        if kind in (tirx.Add, tirx.Sub):
            return _combine(
                self._linear(expression.a),
                self._linear(expression.b),
                1 if kind is tirx.Add else -1,
            )
        if kind is tirx.Mul:
            a, b = self._linear(expression.a), self._linear(expression.b)
            if not a[0]:
                a, b = b, a
            if not b[0]:
                return _combine(({}, 0), a, b[1])
        if kind not in BINARY:
            raise Unencodable(f"an index of type {kind.__name__}")
        label = f"index {BINARY[kind]} {dtype}"
        operands = self._simplified(expression.a), self._simplified(expression.b)
        if kind in COMMUTATIVE:
            return {self._graph.term(label, (), operands): 1}, 0
        return {self._graph.term(label, operands): 1}, 0

    def _condition(self, expression: Any, negated: bool) -> int:
        """Return the node of a condition; conjunctions are flattened, ``not`` is moved inside."""
        kind = type(expression)
        if kind is tirx.IntImm:
            return self._truth(bool(expression.value) != negated)
        if kind is tirx.Not:
            return self._condition(expression.a, not negated)
        if kind in (tirx.And, tirx.Or):
            conjunction = (kind is tirx.And) != negated
            nodes = {self._condition(part, negated) for part in _operands(expression, kind)}
            if self._truth(not conjunction) in nodes:
                return self._truth(not conjunction)
            nodes.discard(self._truth(conjunction))
            if not nodes:
                return self._truth(conjunction)
            name = "index all" if conjunction else "index any"
            return nodes.pop() if len(nodes) == 1 else self._graph.term(name, (), nodes)
        simplified = self._simplify(expression)
        if isinstance(simplified, COMPARISONS):
            return self._comparison(simplified, negated)
        if isinstance(simplified, tirx.IntImm | tirx.Not | tirx.And | tirx.Or):
            return self._condition(simplified, negated)
        raise Unencodable(f"a condition of type {kind.__name__}")

    def _comparison(self, expression: Any, negated: bool) -> int:
        """Encode ``a < b`` as ``a - b + 1 <= 0``, and ``a == b`` with positive factors only."""
        kind, dtype = type(expression), str(expression.a.ty)
        terms, offset = _combine(self._linear(expression.a), self._linear(expression.b), -1)
        if kind in (tirx.EQ, tirx.NE):
            sides = [
                {atom: abs(factor) for atom, factor in terms.items() if (factor > 0) == positive}
                for positive in (True, False)
            ]
            nodes = (
                self._sum(sides[0], max(offset, 0), dtype),
                self._sum(sides[1], max(-offset, 0), dtype),
            )
            equal = (kind is tirx.EQ) != negated
            return self._graph.term("index equal" if equal else "index different", (), nodes)
        if kind in (tirx.GT, tirx.GE):
            terms, offset = _combine(({}, 0), (terms, offset), -1)
        if negated:
            terms, offset = _combine(({}, 0), (terms, offset), -1)
        if (kind in (tirx.LT, tirx.GT)) != negated:
            offset += 1
        return self._graph.term("index at most 0", (self._sum(terms, offset, dtype),))

    def _truth(self, value: bool) -> int:
        return self._graph.term(f"int bool {int(value)}")


def known_constant(expression: Any) -> int:
    """Return the value of an integer constant; ``Unencodable`` for any other expression."""
    value = constant(expression)
    if value is None:
        raise Unencodable(f"the symbolic extent {expression}")
    return value


def is_index_arithmetic(expression: Any, levels: int = DEEPEST) -> bool:
    """Return whether an expression is an integer or a condition over axes and constants only.

    ``levels`` is the maximum depth of the expression; deeper ones return False.
    """
    kind = type(expression)
    if levels == 0:
        return False
    if kind in (tirx.Var, tirx.IntImm):
        dtype = str(expression.ty)
        return dtype in INDEX_DTYPES or (kind is tirx.IntImm and dtype == "bool")
    if kind in (tirx.And, tirx.Or, tirx.Not):
        parts = operands_of(expression)
        return all(is_index_arithmetic(part, levels - 1) for part in parts)
    typed = kind is tirx.Cast or kind in BINARY
    if kind in COMPARISONS or (typed and str(expression.ty) in INDEX_DTYPES):
        return all(_is_index(part, levels - 1) for part in operands_of(expression))
    return False


def _is_index(expression: Any, levels: int) -> bool:
    return str(expression.ty) in INDEX_DTYPES and is_index_arithmetic(expression, levels)


def _operands(expression: Any, kind: type[Any]) -> list[Any]:
    """Flatten nested operations: ``a and (b and c)`` -> ``[a, b, c]``."""
    if type(expression) is not kind:
        return [expression]
    return _operands(expression.a, kind) + _operands(expression.b, kind)


def _combine(
    one: tuple[dict[int, int], int], other: tuple[dict[int, int], int], factor: int
) -> tuple[dict[int, int], int]:
    """Return ``one + factor * other``, without terms that cancel."""
    terms = dict(one[0])
    for atom, times in other[0].items():
        terms[atom] = terms.get(atom, 0) + factor * times
    return {atom: times for atom, times in terms.items() if times}, one[1] + factor * other[1]
