"""The stores of a program: what decides each, and which arguments decide no place and no end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx
from tvm.ir import IRModule, TensorLoad
from tvm.s_tir import SBlockRealize

from schedlang.tvm.parts import Definitions, nests_of, parts_of
from schedlang.tvm.program import MAIN
from schedlang.tvm.values import DIVISIONS, found_in, is_floating, loads_of


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


class Stores(Definitions):
    """The stores of a program.

    Attributes
    ----------
    stores: in program order.
    lengths: expressions that decide how long a loop runs.
    """

    def __init__(self, func: tirx.PrimFunc) -> None:
        super().__init__()
        self.stores: list[Store] = []
        self.lengths: list[Any] = []
        for statement in nests_of(func):
            self._statement(statement, Store(None, (), None))

    def of(self, buffer: Any) -> list[Store]:
        """Return the stores to one tensor."""
        return [store for store in self.stores if store.buffer.same_as(buffer)]

    def read(self, store: Store) -> set[Any]:
        """Return the tensors whose values decide what a store writes."""
        found = set(store.read)
        for expression in store.expressions:
            found |= self.loaded(expression)
        return found

    def loaded(self, expression: Any) -> set[Any]:
        """Return the tensors that an expression loads."""
        return {self.tensor(load.source) for load in loads_of(self.resolved(expression))}

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
        if isinstance(stmt, tirx.For):
            self.lengths += [stmt.min, stmt.extent]
            around = _under(around, stmt.min, stmt.extent)
        elif isinstance(stmt, tirx.While | tirx.IfThenElse):
            if isinstance(stmt, tirx.While):
                self.lengths.append(stmt.condition)
            around = _under(around, stmt.condition)
        elif isinstance(stmt, SBlockRealize):
            self.note(stmt.block)
            around = _under(around, stmt.predicate, *stmt.iter_values)
            around = replace(around, blocks=(*around.blocks, stmt.block))
        elif isinstance(stmt, tirx.BufferStore):
            buffer, indices = self.tensor(stmt.buffer), tuple(stmt.indices)
            self.stores.append(replace(around, buffer=buffer, indices=indices, value=stmt.value))
        elif isinstance(stmt, tirx.Bind):
            self.bound[stmt.var] = stmt.value
        elif isinstance(stmt, tirx.Evaluate):
            self._call(stmt.value, around)
        for part in parts_of(stmt):
            self._statement(part, around)

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
    return (var for var in found_in(expression, tirx.Var) if isinstance(var.ty, tirx.BufferType))


def changeable(mod: IRModule) -> frozenset[int]:
    """Return the positions of arguments that may have any value without a crash.

    No index, no loop's length, no divisor of integers and no call that may write depends on them.
    """
    func = mod[MAIN]
    stores = Stores(func)
    critical = set().union(*map(stores.loaded, stores.lengths))
    for store in stores.stores:
        critical |= store.read
        for expression in _critical(stores, store):
            critical |= stores.loaded(expression)
    behind = set().union(*map(stores.behind, critical))
    return frozenset(
        position for position, parameter in enumerate(func.params) if parameter not in behind
    )


def _critical(stores: Stores, store: Store) -> list[Any]:
    """Return the indices and divisors in the expressions of a store."""
    found = list(store.indices)
    for expression in map(stores.resolved, store.expressions):
        found += [index for load in found_in(expression, TensorLoad) for index in load.indices]
        found += [it.b for it in found_in(expression, DIVISIONS) if not is_floating(it)]
    return found
