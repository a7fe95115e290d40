"""Expressions of a program as terms of a graph: index arithmetic normalised, values as written."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import Call, Op, StringImm, TensorLoad
from tvm.s_tir.analysis import get_sblock_read_write_region
from tvm_ffi import structural_equal

from schedlang.tvm.graph.canonical import Graph
from schedlang.tvm.graph.indices import (
    BINARY,
    COMMUTATIVE,
    DEEPEST,
    FLIPPED,
    INDEX_DTYPES,
    IndexArithmetic,
    Unencodable,
    is_index_arithmetic,
    known_constant,
)
from schedlang.tvm.values import constant, operands_of

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
class Access:
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

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._buffers: dict[Any, int] = {}
        self._shapes: dict[Any, tuple[int, ...]] = {}
        self._depth = 0
        self.axes = IndexArithmetic(graph)
        self.accesses: list[Access] = []

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
        self.accesses.append(Access(self.buffer(buffer), tuple(place[:rank]), written))
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
