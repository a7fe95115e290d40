"""A program as a graph that is independent of names, unit loops and free loop orders.

Two programs with equal canonical forms of their graphs (``canonical_graph``) are one workload. The
skeleton of a program leaves out the numbers that follow from shapes: programs with the same one are
kin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import tirx
from tvm.ir import Call, StringImm, TensorLoad
from tvm.s_tir import SBlockRealize

from schedlang.tvm.canonical_graph import TermGraph
from schedlang.tvm.graph_terms import Expressions, TermAccess, Unencodable
from schedlang.tvm.packing import LAYOUT_FREE
from schedlang.tvm.program import OUTPUTS
from schedlang.tvm.statements import bindings_of, parts_of
from schedlang.tvm.values import (
    called,
    choice_of,
    constant,
    found_in,
    has_loads,
    loads_of,
    operands_of,
)

# Attributes that do not change what the function computes from distinct tensors.
# `op_pattern` is Relax's fusion pattern.
BOOKKEEPING = ("global_symbol", "s_tir", "tirx.noalias", "op_pattern")
_SERIAL = int(tirx.ForKind.SERIAL)
_SPATIAL, _REDUCTION = int(tirx.IterVar.DataPar), int(tirx.IterVar.CommReduce)


@dataclass(frozen=True, slots=True)
class ProgramGraph:
    """The graph of a program.

    Attributes
    ----------
    graph: the graph. The operands of ``Add``, ``Mul``, ``And``, ``Or``, ``EQ``, ``NE``, ``Min``
        and ``Max``, the parameters and the free axes of a nest are unordered.
    root: number of the root node.
    parameters: the node of each parameter, in the order of the signature.
    """

    graph: TermGraph
    root: int
    parameters: tuple[int, ...]


def program_graph(func: tirx.PrimFunc) -> ProgramGraph | None:
    """Return the graph of a function; None if the graph has no terms for one of its constructs.

    * Names and the order of the parameters are not represented.
    * Loops of one iteration and dimensions of extent 1 are dropped.
    * Index arithmetic and conditions on axes are simplified; values are not.
    * The order of the free axes of a nest is not represented: see ``_Walker.nest``.

    Everything else that can affect the result or the schedules is represented: attributes,
    annotations, declared regions, memory scopes and the order of statements.
    """
    walker = _Walker()
    try:
        return walker.program(func)
    except Unencodable:
        return None


class _Walker:
    """Encodes statements."""

    def __init__(self) -> None:
        self._graph = TermGraph()
        self._expressions = Expressions(self._graph)
        self._axes = self._expressions.axes

    def program(self, func: tirx.PrimFunc) -> ProgramGraph:
        define = self._expressions.define_buffer
        parameters = tuple(define(var, "parameter") for var in func.params)
        attributes = [
            self._graph.term(f"attribute {key}", (self._attribute(key, value, parameters),))
            for key, value in func.attrs.items()
            if key not in BOOKKEEPING
        ]
        root = self._graph.term(
            "program",
            (self._graph.term("attributes", (), attributes), self.statement(func.body)),
            parameters,
        )
        return ProgramGraph(self._graph, root, parameters)

    def _attribute(self, key: str, value: Any, parameters: tuple[int, ...]) -> int:
        if key in (LAYOUT_FREE, OUTPUTS):
            positions = [int(position) for position in value]
            return self._graph.term(key, (), [parameters[k] for k in positions])
        return self._literal(value)

    def _literal(self, value: Any) -> int:
        """Return the node of the value of an attribute or annotation."""
        term = self._graph.term
        if isinstance(value, bool | int | float | str):
            return term(f"literal {type(value).__name__} {value!r}")
        if isinstance(value, StringImm):
            return term(f"literal str {str(value.value)!r}")
        if isinstance(value, tirx.IntImm | tirx.FloatImm):
            return self._expressions.value(value)
        if isinstance(value, tvm_ffi.Array | list | tuple):
            return term("list", [self._literal(item) for item in value])
        if isinstance(value, tvm_ffi.Map | dict):
            entries = [term(f"entry {k!s}", (self._literal(item),)) for k, item in value.items()]
            return term("map", (), entries)
        if isinstance(value, tirx.Var):
            return self._expressions.buffer(value)
        raise Unencodable(f"an attribute of type {type(value).__name__}")

    def statement(self, stmt: Any) -> int:
        """Return the node of a statement."""
        if isinstance(stmt, tirx.For):
            return self.nest(stmt)
        if isinstance(stmt, SBlockRealize):
            with self._axes.scope():
                return self._block(stmt, _plain_axes([], stmt))
        if isinstance(stmt, tirx.BufferStore):
            return self._expressions.store(stmt)
        if isinstance(stmt, tirx.SeqStmt):
            return self._graph.term("sequence", [self.statement(child) for child in stmt.seq])
        if isinstance(stmt, tirx.IfThenElse):
            condition = self._expressions.value(stmt.condition)
            return self._graph.term("if", (condition, *map(self.statement, parts_of(stmt))))
        raise Unencodable(f"a statement of type {type(stmt).__name__}")

    def nest(self, loop: Any) -> int:
        """Return the node of a loop nest.

        A nest is *plain* if its loops are serial and surround one block, and each axis of the block
        is bound to a loop of its own; loop and axis then share one node. The spatial axes of a
        plain nest are *free* if, for each of them, every written buffer has a dimension that all
        accesses in the block index by this axis alone. Two iterations that differ in a free axis
        then never touch the same written element, so only the order of the reduction axes matters.
        """
        loops, stmt = [], loop
        while isinstance(stmt, tirx.For) and _is_simple(stmt):
            loops.append(stmt)
            stmt = stmt.body
        with self._axes.scope():
            axes = _plain_axes(loops, stmt) if isinstance(stmt, SBlockRealize) else None
            if axes is None:
                return self._loop(loop)
            for single in loops:
                if constant(single.extent) == 1:
                    self._axes.substitute(single.loop_var, single.min)
            return self._block(stmt, axes)

    def _loop(self, loop: Any) -> int:
        """Return the node of a single loop that is not part of a plain nest."""
        if constant(loop.extent) == 1 and _is_simple(loop):
            self._axes.substitute(loop.loop_var, loop.min)
            return self.statement(loop.body)
        index = self._expressions.index
        bounds = [index(loop.min), index(loop.extent)]
        if loop.step is not None:
            bounds.append(index(loop.step))
        variable = self._axes.define_axis(
            [loop.loop_var], f"loop variable {loop.loop_var.ty}", loop.min, loop.extent
        )
        binding = loop.thread_binding
        thread = "" if binding is None else f"{binding.thread_tag} {int(binding.iter_type)}"
        annotations = self._literal(loop.annotations)
        body = self.statement(loop.body)
        return self._graph.term(
            f"for {int(loop.kind)} {thread}", (variable, annotations, body, *bounds)
        )

    def _block(self, realize: Any, axes: list[tuple[Any, Any]] | None) -> int:
        """Return the node of a block; ``axes`` pairs its loops and axes if the nest is plain."""
        block, term = realize.block, self._graph.term
        if block.match_buffers:
            raise Unencodable("a block with match_buffers")
        outer, self._expressions.accesses = self._expressions.accesses, []
        spatial: list[int] = []
        reduction: list[int] = []
        bindings: list[int] = []
        if axes is None:
            bindings = [
                node for axis, value in bindings_of(realize) for node in self._binding(axis, value)
            ]
        else:
            self._drop_single_axes(block)
            for loop, axis in axes:
                kind, dtypes = int(axis.iter_type), f"{loop.loop_var.ty} {axis.var.ty}"
                label = f"axis {kind} {dtypes} {constant(loop.extent)}"
                variables = (loop.loop_var, axis.var)
                node = self._axes.define_axis(variables, label, loop.min, loop.extent)
                (spatial if kind == _SPATIAL else reduction).append(node)
                bindings.append(node)
        buffers = [
            self._expressions.define_buffer(buffer, "buffer") for buffer in block.alloc_buffers
        ]
        parts = [
            self._expressions.value(realize.predicate),
            self._expressions.regions(block),
            term("buffers", (), buffers),
            self._literal(block.annotations),
            *([] if block.init is None else [term("init", (self.statement(block.init),))]),
            self.statement(block.body),
        ]
        accesses = self._expressions.accesses
        self._expressions.accesses = outer + accesses
        if axes is None:
            nest = term("bindings", bindings)
        elif _are_free(spatial, accesses):
            nest = term("nest", reduction, spatial)
        else:
            nest = term("nest in order", bindings)
        return term("block", (nest, *parts))

    def _drop_single_axes(self, block: Any) -> None:
        for axis in block.iter_vars:
            if constant(axis.dom.extent) == 1:
                self._axes.substitute(axis.var, axis.dom.min)

    def _binding(self, axis: Any, value: Any) -> list[int]:
        """Return the nodes of an axis outside plain nests and of the value bound to it."""
        index, dom = self._expressions.index, axis.dom
        nodes = [index(dom.min), index(dom.extent), index(value)]
        if constant(dom.extent) == 1 and nodes[0] == nodes[2]:
            self._axes.substitute(axis.var, dom.min)
            return []
        label = f"block axis {int(axis.iter_type)} {axis.var.ty} {axis.thread_tag}"
        variable = self._axes.define_axis([axis.var], label, dom.min, dom.extent)
        return [self._graph.term("binding", (variable, *nodes))]


def _is_simple(loop: Any) -> bool:
    """Return whether a loop is serial, without annotations and without a step."""
    plain = loop.thread_binding is None and not loop.annotations and loop.step is None
    return plain and int(loop.kind) == _SERIAL


def _are_free(axes: Sequence[int], accesses: Sequence[TermAccess]) -> bool:
    """Return whether each written buffer has, for each axis, a dimension indexed by it alone."""
    for buffer in {access.buffer for access in accesses if access.written}:
        places = [access.indices for access in accesses if access.buffer == buffer]
        for axis in axes:
            if not any(all(index == axis for index in dim) for dim in zip(*places, strict=True)):
                return False
    return True


def _plain_axes(loops: Sequence[Any], realize: Any) -> list[tuple[Any, Any]] | None:
    """Return pairs of loop and block axis, in loop order; None if the nest is not plain.

    Loops and axes of one iteration are skipped.
    """
    longer = {loop.loop_var: loop for loop in loops if constant(loop.extent) != 1}
    ones = {loop.loop_var: loop.min for loop in loops if constant(loop.extent) == 1}
    axes: dict[Any, Any] = {}
    for axis, value in bindings_of(realize):
        low, extent = constant(axis.dom.min), constant(axis.dom.extent)
        if extent == 1:
            if low is None or constant(ones.get(value, value)) != low:
                return None
            continue
        if value not in longer or value in axes or axis.thread_tag:
            return None
        loop = longer[value]
        bounds = (low, constant(loop.min), extent)
        if bounds != (0, 0, constant(loop.extent)) or extent is None:
            return None
        if int(axis.iter_type) not in (_SPATIAL, _REDUCTION):
            return None
        axes[value] = axis
    if len(axes) != len(longer):
        return None
    return [(loop, axes[var]) for var, loop in longer.items()]


# -- The skeleton: the structure without the numbers that follow from shapes ----------------------


def skeleton(func: tirx.PrimFunc) -> str | None:
    """Return the structure of a function as text; None for constructs that it has no words for.

    Equal texts mean the same loops, also those of one iteration, around the same blocks with the
    same axes, in the same order, which access buffers of the same types and ranks by indices of
    the same axes. Left out are names, which parameters are weights, extents, numbers in indices and
    values, and zeros (or another constant) around a padded tensor. Of a block that reduces nothing,
    the value counts only as the elements that it loads and the functions that it calls: such blocks
    are scheduled alike.
    """
    try:
        return "\n".join(_SkeletonReader(func).lines)
    except Unencodable:
        return None


class _SkeletonReader:
    def __init__(self, func: tirx.PrimFunc) -> None:
        self._numbers: dict[Any, int] = {}
        self._parameters = list(func.params)
        known = (*BOOKKEEPING, LAYOUT_FREE)
        self.lines = [f"attribute {key}" for key in sorted(func.attrs.keys()) if key not in known]
        self._statement(func.body, 0)

    def _say(self, depth: int, text: str) -> None:
        self.lines.append(" " * depth + text)

    def _number(self, variable: Any) -> int:
        return self._numbers.setdefault(variable, len(self._numbers))

    def _buffer(self, buffer: Any) -> str:
        role = "p" if buffer in self._parameters else "b"
        ty = buffer.ty
        return f"{role}{self._number(buffer)}:{ty.dtype}:{len(ty.shape)}:{ty.storage_scope}"

    def _axes(self, indices: Iterable[Any]) -> str:
        """Return the axes in each index, and what it loads."""
        return ", ".join(self._index(index) for index in indices)

    def _index(self, index: Any) -> str:
        if isinstance(index, tirx.Var):
            return f"a{self._number(index)}"
        if isinstance(index, TensorLoad):
            return self._load(index)
        parts = [self._index(part) for part in operands_of(index)]
        if not parts and not isinstance(index, tirx.IntImm | tirx.FloatImm):
            raise Unencodable(f"an index of type {type(index).__name__}")
        return " ".join(sorted({word for part in parts for word in part.split(" ") if word}))

    def _load(self, load: Any) -> str:
        indices = self._axes(load.indices).replace(", ", ",").replace(" ", "+")
        return f"{self._buffer(load.source)}[{indices}]"

    def _statement(self, stmt: Any, depth: int) -> None:
        if isinstance(stmt, tirx.For):
            if stmt.thread_binding is not None:
                raise Unencodable("a bound loop")
            self._say(depth, f"for {int(stmt.kind)} {sorted(map(str, stmt.annotations))}")
            self._number(stmt.loop_var)
            self._statement(stmt.body, depth + 1)
        elif isinstance(stmt, tirx.SeqStmt):
            for part in stmt.seq:
                self._statement(part, depth)
        elif isinstance(stmt, SBlockRealize):
            self._block(stmt, depth)
        else:
            raise Unencodable(f"a statement of type {type(stmt).__name__}")

    def _block(self, realize: Any, depth: int) -> None:
        block = realize.block
        if block.match_buffers:
            raise Unencodable("a block with match_buffers")
        values = [self._index(value) for value in realize.iter_values]
        kinds = "".join(str(int(axis.iter_type)) for axis in block.iter_vars)
        for axis in block.iter_vars:
            self._number(axis.var)
        guard = "" if isinstance(realize.predicate, tirx.IntImm) else "where"
        self._say(depth, f"block {kinds} {values} {sorted(map(str, block.annotations))} {guard}")
        if isinstance(block.body, tirx.For | tirx.SeqStmt | SBlockRealize):
            self._statement(block.body, depth + 1)
            return
        reduces = block.init is not None or any(k == "2" for k in kinds)
        for part in (block.init, block.body):
            if part is not None:
                self._store(part, reduces, depth + 1)

    def _store(self, stmt: Any, reduces: bool, depth: int) -> None:
        if not isinstance(stmt, tirx.BufferStore):
            raise Unencodable(f"a statement of type {type(stmt).__name__} in a block")
        value = self._value(stmt.value) if reduces else self._loaded(stmt.value)
        indices = self._axes(stmt.indices)
        self._say(depth, f"{self._buffer(stmt.buffer)}[{indices}] = {value}")

    def _value(self, expr: Any) -> str:
        """Return an expression without its constants."""
        expr = _without_padding(expr)
        if isinstance(expr, TensorLoad):
            return self._load(expr)
        if isinstance(expr, tirx.Var):
            return f"a{self._number(expr)}"
        name = type(expr).__name__
        if isinstance(expr, Call):
            name = called(expr)
        return f"{name}({', '.join(self._value(part) for part in operands_of(expr))})"

    def _loaded(self, value: Any) -> str:
        """Return what an expression loads, and the functions that it calls."""
        value = _without_padding(value)
        # What is called by the padded value too.
        calls = {called(call) for call in found_in(value, Call)}
        return f"{[self._load(load) for load in loads_of(value)]} {sorted(calls)}"


def _without_padding(expr: Any) -> Any:
    """Return the value inside, where an expression is a constant outside of a region."""
    while isinstance(expr, Call) and (choice := choice_of(expr)) is not None:
        condition, inside, outside = choice
        if not isinstance(outside, tirx.IntImm | tirx.FloatImm) or has_loads(condition):
            break
        expr = inside
    return expr
