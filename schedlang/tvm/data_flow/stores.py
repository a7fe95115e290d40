"""The stores of a program: what each writes, and everything that decides it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.ir.expr import TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.tirx.buffer import BufferType
from tvm.tirx.function import PrimFunc
from tvm_ffi import structural_map, structural_walk


@dataclass(frozen=True)
class Store:
    """One store, or a call that may write.

    Attributes
    ----------
    buffer: the tensor.
    indices: where in it; empty for a call.
    value: what is stored; for a call, the call itself.
    conditions: expressions around it that decide whether it happens: conditions and loop bounds.
    blocks: the blocks around it, outermost first, without the root.
    read: tensors that a call may read; a store reads what its expressions load.
    """

    buffer: Any
    indices: tuple[Any, ...]
    value: Any
    conditions: tuple[Any, ...] = ()
    blocks: tuple[Any, ...] = ()
    read: frozenset[Any] = frozenset()

    @property
    def expressions(self) -> tuple[Any, ...]:
        """All expressions that decide what the tensor holds afterwards."""
        return (self.value, *self.indices, *self.conditions)


class Stores:
    """The stores of a program.

    Attributes
    ----------
    stores: in program order.
    bound: variables that a statement binds, and what each stands for.
    lengths: expressions that decide how long a loop runs.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.stores: list[Store] = []
        self.bound: dict[Any, Any] = {}
        self.lengths: list[Any] = []
        self._regions: dict[Any, Any] = {}
        root = func.body.block.body if isinstance(func.body, SBlockRealize) else func.body
        self._statement(root, Store(None, (), None))

    def of(self, buffer: Any) -> list[Store]:
        """Return the stores to one tensor."""
        return [store for store in self.stores if store.buffer.same_as(buffer)]

    def tensor(self, buffer: Any) -> Any:
        """Return the tensor that a buffer is, or is a part of."""
        return self.tensor(self._regions[buffer]) if buffer in self._regions else buffer

    def resolved(self, expression: Any) -> Any:
        """Put what they stand for in the place of variables that are bound by a statement."""

        def replaced(var: Any) -> Any:
            return self.resolved(self.bound[var]) if var in self.bound else var

        return structural_map(expression, (tirx.Var, replaced)) if self.bound else expression

    def read(self, store: Store) -> set[Any]:
        """Return the tensors whose values decide what a store writes."""
        found = set(store.read)
        for expression in store.expressions:
            found |= self.loaded(expression)
        return found

    def loaded(self, expression: Any) -> set[Any]:
        """Return the tensors that an expression loads."""
        loads: list[Any] = []
        structural_walk(self.resolved(expression), (TensorLoad, loads.append))
        return {self.tensor(load.source) for load in loads}

    def behind(self, buffer: Any) -> set[Any]:
        """Return the tensors that the values of ``buffer`` come from, itself included."""
        pending, seen = [buffer], {buffer}
        while pending:
            for store in self.of(pending.pop()):
                new = self.read(store) - seen
                seen |= new
                pending += new
        return seen

    def _statement(self, stmt: Any, around: Store) -> None:
        """Collect below ``stmt``; ``around`` holds the conditions and blocks around it."""
        if isinstance(stmt, tirx.SeqStmt):
            for child in stmt.seq:
                self._statement(child, around)
        elif isinstance(stmt, tirx.For):
            self.lengths += [stmt.min, stmt.extent]
            self._statement(stmt.body, _under(around, stmt.min, stmt.extent))
        elif isinstance(stmt, tirx.While):
            self.lengths.append(stmt.condition)
            self._statement(stmt.body, _under(around, stmt.condition))
        elif isinstance(stmt, tirx.IfThenElse):
            for case in (stmt.then_case, stmt.else_case):
                if case is not None:
                    self._statement(case, _under(around, stmt.condition))
        elif isinstance(stmt, SBlockRealize):
            self._block(stmt, around)
        elif isinstance(stmt, tirx.AttrStmt):
            self._statement(stmt.body, around)
        elif isinstance(stmt, tirx.BufferStore):
            buffer, indices = self.tensor(stmt.buffer), tuple(stmt.indices)
            self.stores.append(replace(around, buffer=buffer, indices=indices, value=stmt.value))
        elif isinstance(stmt, tirx.Bind):
            self.bound[stmt.var] = stmt.value
        elif isinstance(stmt, tirx.Evaluate):
            self._call(stmt.value, around)

    def _block(self, realize: Any, around: Store) -> None:
        block = realize.block
        for match in block.match_buffers:
            self._regions[match.buffer] = match.source.source
        inside = _under(around, realize.predicate, *realize.iter_values)
        inside = replace(inside, blocks=(*around.blocks, block))
        if block.init is not None:
            self._statement(block.init, inside)
        self._statement(block.body, inside)

    def _call(self, call: Any, around: Store) -> None:
        """Note a call, which may read what its block reads, and write what it writes."""
        if not around.blocks:
            return
        block = around.blocks[-1]
        mentioned = frozenset(map(self.tensor, _buffers(call)))
        read = mentioned | {self.tensor(region.source) for region in block.reads}
        for region in block.writes:
            buffer = self.tensor(region.source)
            self.stores.append(replace(around, buffer=buffer, value=call, read=read))


def _under(around: Store, *conditions: Any) -> Store:
    return replace(around, conditions=(*around.conditions, *conditions))


def _buffers(expression: Any) -> Iterator[Any]:
    found: list[Any] = []
    structural_walk(expression, (tirx.Var, found.append))
    return (var for var in found if isinstance(var.ty, BufferType))
