"""Expressions of a program as terms of a graph: index arithmetic normalised, values as written.

``Expressions`` encodes what a program computes; ``IndexArithmetic`` brings its indices into a
normal form, so that the same index written in two ways is one term. ``program_graph`` uses both.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import tirx
from tvm.error import InternalError
from tvm.ir import Call, Op, StringImm, TensorLoad
from tvm.s_tir.analysis import get_sblock_read_write_region
from tvm.sym import Analyzer
from tvm_ffi import structural_equal

from schedlang.tvm.canonical_graph import TermGraph
from schedlang.tvm.errors import comes_back
from schedlang.tvm.values import COMPARISONS, constant, operands_of

# TVM's CallEffectKind: annotations and pure calls; all other kinds read or change state.
_PURE_EFFECTS = (0, 1)
_BITWISE: dict[type, str] = {
    tirx.BitwiseAnd: "bit and", tirx.BitwiseOr: "bit or", tirx.BitwiseXor: "bit xor",
}  # fmt: skip
_OTHERS: dict[type, str] = {
    tirx.Not: "not", tirx.Cast: "cast", tirx.Select: "select", tirx.BitwiseNot: "bit not",
    tirx.LShift: "shift left", tirx.RShift: "shift right",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TermAccess:
    """A load or store: the nodes of its buffer and of the indices of its non-unit dimensions."""

    buffer: int
    indices: tuple[int, ...]
    written: bool


class Expressions:
    """Encodes the expressions of one program.

    Index arithmetic is normalised wherever it occurs; every other expression is encoded operator by
    operator, as written. Labels inside an index (``table[row[i] + 1]``) begin with ``index``, which
    keeps them apart from the operators of values.

    ``axes`` holds the axes; ``accesses`` collects the encoded loads and stores.
    """

    def __init__(self, graph: TermGraph) -> None:
        self._graph = graph
        self._buffers: dict[Any, int] = {}
        self._shapes: dict[Any, tuple[int, ...]] = {}
        self._depth = 0
        self.axes = IndexArithmetic(graph)
        self.accesses: list[TermAccess] = []

    def define_buffer(self, buffer: Any, what: str) -> int:
        """Add a leaf for a buffer: dtype, scope and shape, without dimensions of extent 1."""
        kind = buffer.ty
        if not isinstance(kind, tirx.BufferType):
            raise Unencodable(f"{buffer} is not a buffer")
        if kind.strides or kind.layout is not None or kind.allocated_addr:
            raise Unencodable(f"{buffer} has strides, a layout or an address")
        if constant(kind.elem_offset) != 0:
            raise Unencodable(f"{buffer} has an offset")
        shape = tuple(known_constant(extent) for extent in kind.shape)
        self._shapes[buffer] = shape
        extents = "x".join(str(extent) for extent in shape if extent != 1)
        place = f"{kind.storage_scope} {kind.data_alignment} {kind.offset_factor}"
        self._buffers[buffer] = self._graph.leaf(f"{what} {kind.dtype} {place} [{extents}]")
        return self._buffers[buffer]

    def buffer(self, buffer: Any) -> int:
        """Return the leaf of a buffer."""
        if buffer not in self._buffers:
            raise Unencodable(f"{buffer} is not a buffer of the program")
        return self._buffers[buffer]

    def regions(self, block: Any) -> int:
        """Return the node of the regions that a block declares to read and write.

        Regions equal to the ones that TVM infers from the body share one fixed node. They add no
        information, and they depend on the order of operands: TVM unites the regions of several
        loads of a buffer in that order.
        """
        if not block.reads and not block.writes:
            return self._graph.term("no regions")
        buffers = {buffer: buffer for buffer in self._buffers}
        found = get_sblock_read_write_region(block, buffers)
        if structural_equal(found, [block.reads, block.writes]):
            return self._graph.term("regions of the body")
        reads, writes = (
            {self._region(one) for one in part} for part in (block.reads, block.writes)
        )
        sides = [self._graph.term("regions", (), side) for side in (reads, writes)]
        return self._graph.term("declared regions", sides)

    def _region(self, region: Any) -> int:
        starts = self._place(region.source, [dom.min for dom in region.region])
        shape = self._shapes[region.source]
        extents = [
            self.index(dom.extent)
            for dom, extent in zip(region.region, shape, strict=True)
            if extent != 1
        ]
        return self._graph.term("region", (self.buffer(region.source), *starts, *extents))

    def store(self, store: Any) -> int:
        """Return the node of ``buffer[indices] = value``."""
        place = self._access(store.buffer, store.indices, written=True)
        return self._graph.term("store", (place, self.value(store.value)))

    def _access(self, buffer: Any, indices: Any, written: bool = False) -> int:
        place = self._place(buffer, indices)
        rank = sum(extent != 1 for extent in self._shapes[buffer])
        self.accesses.append(TermAccess(self.buffer(buffer), tuple(place[:rank]), written))
        return self._graph.term("element", (self.buffer(buffer), *place))

    def _place(self, buffer: Any, indices: Any) -> list[int]:
        """Return the nodes of the indices: non-unit dimensions first, then remaining unit ones.

        An index into a dimension of extent 1 is 0 when it is in bounds. If it does not simplify to
        0 (it is guarded by a condition, or out of bounds), it is kept together with its stride.
        """
        self.buffer(buffer)
        shape = self._shapes[buffer]
        if len(indices) != len(shape):
            raise Unencodable(f"{buffer} of {len(shape)} dimensions with {len(indices)} indices")
        place, rest, stride = [], [], 1
        zeros = {self._graph.term(f"int {dtype} 0") for dtype in INDEX_DTYPES}
        for index, extent in zip(reversed(indices), reversed(shape), strict=True):
            node = self.index(index)
            if extent != 1:
                place.append(node)
            elif node not in zeros:
                rest.append(self._graph.term(f"stride {stride}", (node,)))
            stride *= extent
        place.reverse()
        return place + ([self._graph.term("unit dimensions", (), rest)] if rest else [])

    def value(self, expression: Any) -> int:
        """Return the node of an expression that is not an index."""
        return self._encode(expression, "")

    def index(self, expression: Any) -> int:
        """Return the node of an index, an extent or a bound."""
        return self._encode(expression, "index ")

    def _encode(self, expression: Any, prefix: str) -> int:
        if is_index_arithmetic(expression):
            return self.axes.encode(expression)
        self._depth += 1
        if self._depth > DEEPEST:
            raise Unencodable(f"an expression of more than {DEEPEST} levels")
        node = self._operation(expression, prefix)
        self._depth -= 1
        return node

    def _operation(self, expression: Any, prefix: str) -> int:
        kind, term = type(expression), self._graph.term
        if kind is TensorLoad:
            return term("load", (self._access(expression.source, expression.indices),))
        if kind is tirx.FloatImm:
            bits = struct.pack(">d", expression.value).hex()
            return term(f"float {expression.ty} {bits}")
        if kind is tirx.IntImm:
            return term(f"int {expression.ty} {int(expression.value)}")
        if kind is StringImm:
            return term(f"text {expression.value!s}")
        label = f"{prefix}{{}} {expression.ty}".format
        if kind in BINARY:
            name = BINARY[kind]
            a, b = self._encode(expression.a, prefix), self._encode(expression.b, prefix)
            if kind in COMMUTATIVE:
                return term(label(name), (), (a, b))
            return term(label(name), (b, a) if kind in FLIPPED else (a, b))
        if kind in _BITWISE:
            parts = operands_of(expression)
            return term(label(_BITWISE[kind]), (), [self._encode(part, prefix) for part in parts])
        if kind is Call:
            return self._call(expression, prefix)
        if kind in _OTHERS:
            parts = operands_of(expression)
            return term(label(_OTHERS[kind]), [self._encode(part, prefix) for part in parts])
        raise Unencodable(f"an expression of type {kind.__name__}")

    def _call(self, call: Any, prefix: str) -> int:
        if not isinstance(call.op, Op) or call.attrs is not None or call.ty_args:
            raise Unencodable(f"the call {call}")
        if call.op.get_attr("TCallEffectKind") not in _PURE_EFFECTS:
            raise Unencodable(f"the call {call}, which may have effects")
        arguments = [self._encode(argument, prefix) for argument in call.args]
        return self._graph.term(f"{prefix}call {call.op.name} {call.ty}", arguments)


# -- Index arithmetic in a normal form ------------------------------------------------------------

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

    def __init__(self, graph: TermGraph) -> None:
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
