"""The accesses of a program to one tensor, with the loops and conditions around them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from tvm import tirx
from tvm.ir import Call, Range, TensorLoad
from tvm.s_tir import SBlock, SBlockRealize
from tvm.sym.iter_affine_map import IterMapLevel, detect_iter_map

from schedlang.tvm.statements import Regions, parts_of, statements_in
from schedlang.tvm.values import (
    DIVISIONS,
    IF_THEN_ELSE,
    called,
    choice_of,
    constant,
    found_in,
    found_outside_loads,
    loads_of,
    mentions,
    operands_of,
    substituted,
)

Bounds: TypeAlias = tuple[tuple[Any, Any], ...]
"""A box of elements: for each dimension the first, and the one behind the last."""

# Each loop whose first iteration is looked at by itself doubles the tree.
_MOST_PEELED = 4
_IN_ORDER = (tirx.ForKind.SERIAL, tirx.ForKind.UNROLLED)


class Unclear(Exception):
    """A program accesses the tensor in a form that is not analysed."""


@dataclass(frozen=True, eq=False)
class Read:
    """A read of a box, if all conditions hold; an uncertain one may read less."""

    bounds: Bounds
    conditions: tuple[Any, ...] = ()
    certain: bool = True


@dataclass(frozen=True, eq=False)
class Write:
    """A write of all elements of a box."""

    bounds: Bounds


@dataclass(frozen=True, eq=False)
class AccessSteps:
    """Parts that run one after the other."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, eq=False)
class AccessLoop:
    """A loop; ``in_order`` if its iterations run one after the other."""

    var: Any
    low: Any
    extent: Any
    in_order: bool
    body: Node


@dataclass(frozen=True, eq=False)
class AccessBranch:
    """One of two parts, either of which may be nothing."""

    condition: Any
    yes: Node | None
    no: Node | None


@dataclass(frozen=True, eq=False)
class Repeated:
    """A part that runs any number of times."""

    body: Node


Access: TypeAlias = Read | Write
Node: TypeAlias = Access | AccessSteps | AccessLoop | AccessBranch | Repeated


class AccessTree:
    """Reads a program; ``root`` is None where it does not access the tensor.

    Parameters
    ----------
    func: the program.
    tensor: the parameter.
    fixed: tensors whose elements never change.

    Raises ``Unclear``.
    """

    def __init__(self, func: tirx.PrimFunc, tensor: Any, fixed: frozenset[Any]) -> None:
        self._tensor = tensor
        self._fixed = fixed
        self._regions = Regions()
        self._values: dict[Any, Any] = {}
        self._peeled = 0
        self._unknown = 0
        for node in found_in(func.body, SBlock):
            self._regions.note(node)
        self.root = self._statement(func.body)

    # -- statements ------------------------------------------------------------------------------

    def _statement(self, stmt: Any) -> Node | None:
        if isinstance(stmt, SBlockRealize):
            return self._block(stmt)
        if isinstance(stmt, tirx.For):
            return self._loop(stmt)
        if isinstance(stmt, tirx.BufferStore):
            return self._store(stmt)
        if isinstance(stmt, tirx.IfThenElse):
            condition = self._value(stmt.condition)
            yes = self._statement(stmt.then_case)
            no = None if stmt.else_case is None else self._statement(stmt.else_case)
            branch = None if yes is None and no is None else AccessBranch(condition, yes, no)
            return _sequence([*self._reads(stmt.condition), branch])
        if isinstance(stmt, tirx.While):
            body = self._statement(stmt.body)
            read = self._reads(stmt.condition)
            return _sequence([*read, None if body is None else Repeated(body)])
        if isinstance(stmt, tirx.Bind):
            self._values[stmt.var] = self._value(stmt.value)
            return _sequence(self._reads(stmt.value))
        if isinstance(stmt, tirx.SeqStmt | tirx.AttrStmt):
            return _sequence([self._statement(part) for part in parts_of(stmt)])
        if self._mentions(stmt):
            raise Unclear
        return None

    def _store(self, stmt: Any) -> Node | None:
        reads = self._reads(stmt.value)
        for index in stmt.indices:
            reads += self._reads(index)
        if not self._is_part(stmt.buffer):
            return _sequence(reads)
        if not stmt.buffer.same_as(self._tensor):
            raise Unclear
        return _sequence([*reads, Write(self._box(stmt.indices))])

    def _loop(self, loop: Any) -> Node | None:
        if (ordered := self._over_block_variables(loop)) is not None:
            return ordered
        reads = self._reads(loop.min) + self._reads(loop.extent)
        low, extent = self._value(loop.min), self._value(loop.extent)
        var = tirx.Var(str(loop.loop_var.name), loop.loop_var.ty)
        self._values[loop.loop_var] = var
        unknown = self._unknown
        body = self._statement(loop.body)
        if body is None:
            return _sequence(reads)
        if loop.step is not None and constant(loop.step) != 1:
            raise Unclear
        made = AccessLoop(var, low, extent, loop.kind in _IN_ORDER, body)
        # What is unknown differs between iterations.
        return _sequence([*reads, self._first_apart(made) if unknown == self._unknown else made])

    def _first_apart(self, loop: AccessLoop) -> Node:
        """Return the first iteration and the others, where conditions depend on the iteration."""
        count = constant(loop.extent) or 0
        if (
            count < 1
            or not loop.in_order
            or self._peeled == _MOST_PEELED
            or not _decides(loop.body, loop.var)
        ):
            return loop
        self._peeled += 1
        first: Node = _copy(loop.body, {loop.var: loop.low})
        if count == 1:
            return first
        others = replace(loop, low=loop.low + 1, extent=loop.extent - 1)
        return AccessSteps((first, _copy(others, {})))

    def _over_block_variables(self, loop: Any) -> Node | None:
        """Read a nest around one block as loops over the block's variables, in any order.

        None but where bindings divide loops, and reach each value of the variables exactly once.
        """
        loops, inner = [], loop
        while isinstance(inner, tirx.For):
            loops.append(inner)
            inner = inner.body
        if not isinstance(inner, SBlockRealize) or constant(inner.predicate) != 1:
            return None
        divided = any(found_in(value, DIVISIONS) for value in inner.iter_values)
        if not divided or not _reaches_each_once(loops, inner):
            return None
        variables = {
            axis.var: tirx.Var(axis.var.name, axis.var.ty) for axis in inner.block.iter_vars
        }
        self._values.update(variables)
        body = self._inside(inner.block)
        for axis in reversed(inner.block.iter_vars[:]):
            if body is not None:
                var = variables[axis.var]
                body = AccessLoop(var, axis.dom.min, axis.dom.extent, in_order=False, body=body)
        return body

    # -- blocks ----------------------------------------------------------------------------------

    def _block(self, realize: Any) -> Node | None:
        block = realize.block
        for axis, value in zip(block.iter_vars, realize.iter_values, strict=True):
            if self._mentions(value):
                raise Unclear
            self._values[axis.var] = self._value(value)
        body = self._inside(block)
        if self._mentions(realize.predicate):
            raise Unclear
        if body is None or constant(realize.predicate) == 1:
            return body
        return AccessBranch(self._value(realize.predicate), body, None)

    def _inside(self, block: Any) -> Node | None:
        if self._is_opaque(block):
            return self._declared(block)
        # The init runs in the first iteration that updates an element, whichever it is.
        return _sequence([self._statement(part) for part in parts_of(block)])

    def _is_opaque(self, block: Any) -> bool:
        """Return whether calls access the tensor, or buffers that stand for a part of it."""
        matched = any(self._is_part(it.source.source) for it in block.match_buffers)
        inside = list(statements_in(block.body))
        innermost = not any(isinstance(part, SBlockRealize) for part in inside)
        calls = [it.value for it in inside if isinstance(it, tirx.Evaluate)]
        if not innermost:
            if matched:
                raise Unclear
            return False
        # A call may access by address what the block says.
        declared = any(self._is_part(it.source) for it in (*block.reads, *block.writes))
        addressed = declared and any(constant(it) is None for it in calls)
        if not (matched or addressed or any(map(self._mentions, calls))):
            return False
        if any(
            isinstance(it, tirx.BufferStore) and self._tensor.same_as(it.buffer) for it in inside
        ):
            raise Unclear
        return True

    def _declared(self, block: Any) -> Node | None:
        """Return what a block says that it reads and writes, all of it."""
        decided = any(
            isinstance(part, tirx.IfThenElse | tirx.While) for part in statements_in(block.body)
        )
        read = [Read(it, certain=False) for it in self._declared_boxes(block.reads)]
        boxes = [] if decided else self._declared_boxes(block.writes)
        written = list(map(Write, boxes))
        initialised = written if block.init is not None else []
        return _sequence([*initialised, *read, *written])

    def _declared_boxes(self, regions: Any) -> list[Bounds]:
        boxes = []
        for region in regions:
            if not self._is_part(region.source):
                continue
            if not region.source.same_as(self._tensor):
                raise Unclear
            boxes.append(
                tuple(
                    (self._value(it.min), self._value(it.min + it.extent)) for it in region.region
                )
            )
        return boxes

    # -- expressions -----------------------------------------------------------------------------

    def _reads(self, expression: Any, conditions: tuple[Any, ...] = ()) -> list[Node | None]:
        """Return the reads of the tensor in an expression, each under its conditions."""
        if not self._mentions(expression):
            return []
        choice = choice_of(expression)
        if choice is not None:
            condition, yes, no = choice
            known = self._value(condition)
            found = self._reads(condition, conditions)
            found += self._reads(yes, (*conditions, known))
            return found + self._reads(no, (*conditions, tirx.Not(known)))
        if isinstance(expression, tirx.And):
            found = self._reads(expression.a, conditions)
            return found + self._reads(expression.b, (*conditions, self._value(expression.a)))
        if isinstance(expression, TensorLoad):
            found = [it for index in expression.indices for it in self._reads(index, conditions)]
            if self._is_part(expression.source):
                if not expression.source.same_as(self._tensor):
                    raise Unclear
                found.append(Read(self._box(expression.indices), conditions))
            return found
        operands = operands_of(expression)
        if not operands or _takes_address(expression):
            return self._all_reads(expression)
        return [it for operand in operands for it in self._reads(operand, conditions)]

    def _all_reads(self, expression: Any) -> list[Node | None]:
        """Return all reads in an expression of another kind, each of which may happen."""
        names = found_outside_loads(expression, tirx.Var)
        loads = [it for it in loads_of(expression) if self._is_part(it.source)]
        if (
            any(map(self._is_part, names))
            or any(map(_takes_address, found_in(expression, Call)))
            or not all(it.source.same_as(self._tensor) for it in loads)
        ):
            raise Unclear
        return [Read(self._box(it.indices), certain=False) for it in loads]

    def _box(self, indices: Any) -> Bounds:
        return tuple(map(self._interval, indices))

    def _interval(self, index: Any) -> tuple[Any, Any]:
        if isinstance(index, tirx.Ramp):
            if constant(index.stride) != 1 or constant(index.lanes) is None:
                raise Unclear
            first = self._value(index.base)
            return first, first + constant(index.lanes)
        first = self._value(index)
        return first, first + 1

    def _value(self, expression: Any) -> Any:
        """Return an expression of loop variables; a new variable for one that may change."""
        known = substituted(expression, self._values)
        changes = any(load.source not in self._fixed for load in loads_of(known))
        calls = any(called(it) != IF_THEN_ELSE for it in found_in(known, Call))
        if not changes and not calls:
            return known
        self._unknown += 1
        return tirx.Var("unknown", expression.ty)

    def _is_part(self, buffer: Any) -> bool:
        return bool(self._regions.tensor(buffer).same_as(self._tensor))

    def _mentions(self, node: Any) -> bool:
        return any(map(self._is_part, found_in(node, tirx.Var)))


def _reaches_each_once(loops: list[Any], realize: Any) -> bool:
    """Return whether the loops give each value to the variables of a block exactly once."""
    ranges = {one.loop_var: Range(one.min, one.min + one.extent) for one in loops}
    found = detect_iter_map(
        list(realize.iter_values), ranges, check_level=IterMapLevel.Bijective
    ).indices
    of_loops = [constant(one.extent) for one in loops]
    of_block = [constant(axis.dom.extent) for axis in realize.block.iter_vars]
    known = [[it for it in extents if it is not None] for extents in (of_loops, of_block)]
    if len(found) == 0 or None in (*of_loops, *of_block):
        return False
    return math.prod(known[0]) == math.prod(known[1])


def _takes_address(expression: Any) -> bool:
    return any(word in called(expression) for word in ("address_of", "access_ptr"))


def _sequence(parts: list[Node | None]) -> Node | None:
    present = tuple(part for part in parts if part is not None)
    return present[0] if len(present) == 1 else AccessSteps(present) if present else None


def _decides(node: Node | None, var: Any) -> bool:
    """Return whether a condition depends on a variable."""
    if isinstance(node, Read):
        return any(mentions(condition, [var]) for condition in node.conditions)
    if isinstance(node, AccessSteps):
        return any(_decides(part, var) for part in node.parts)
    if isinstance(node, AccessBranch):
        return mentions(node.condition, [var]) or _decides(node.yes, var) or _decides(node.no, var)
    return isinstance(node, AccessLoop | Repeated) and _decides(node.body, var)


def _copy(node: Any, values: Mapping[Any, Any]) -> Any:
    """Return a copy with values in the place of variables, and loops of its own."""

    def changed(expression: Any) -> Any:
        return substituted(expression, values)

    def box(bounds: Bounds) -> Bounds:
        return tuple((changed(low), changed(high)) for low, high in bounds)

    if isinstance(node, Read):
        return replace(
            node, bounds=box(node.bounds), conditions=tuple(map(changed, node.conditions))
        )
    if isinstance(node, Write):
        return Write(box(node.bounds))
    if isinstance(node, AccessSteps):
        return AccessSteps(tuple(_copy(part, values) for part in node.parts))
    if isinstance(node, AccessBranch):
        return AccessBranch(
            changed(node.condition), _copy(node.yes, values), _copy(node.no, values)
        )
    if isinstance(node, Repeated):
        return Repeated(_copy(node.body, values))
    if isinstance(node, AccessLoop):
        var = tirx.Var(str(node.var.name), node.var.ty)
        inner = {**values, node.var: var}
        low, extent = changed(node.low), changed(node.extent)
        return AccessLoop(var, low, extent, node.in_order, _copy(node.body, inner))
    return None
