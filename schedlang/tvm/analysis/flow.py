"""What flows into a tensor of a program, how it is rounded, and so how exactly it is defined.

``Stores`` lists the stores of a program and what decides each; ``Flows`` follows the values from
store to store.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from typing import Any

from tvm import tirx
from tvm.ir import Call, IRModule, TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.tirx import PrimFunc

from schedlang.tvm.program import MAIN
from schedlang.tvm.statements import (
    BufferDefinitions,
    Place,
    decided_by,
    is_reduced,
    nests_of,
    table_of,
)
from schedlang.tvm.values import (
    BINARY_AND_BITS,
    COMPARISONS,
    DIVISIONS,
    called,
    choice_of,
    dtype_of,
    element_bits,
    found_in,
    is_floating,
    is_integer,
    loads_of,
)

_EXACT_BINARY = (tirx.Min, tirx.Max, tirx.And, tirx.Or, *COMPARISONS)
REINTERPRET = "tirx.reinterpret"
# Functions of floating-point numbers whose result every machine gives alike.
_EXACT_CALLS = frozenset(
    ("tirx.fabs", "tirx.floor", "tirx.ceil", "tirx.trunc", "tirx.round", "tirx.nearbyint",
     REINTERPRET)
)  # fmt: skip
# Bits of the numbers that each type holds all of; float64 holds those of 32 bits.
_WHOLE_BITS = {"bfloat16": 8, "float16": 11, "float32": 24, "float64": 53}
_NEITHER_HOLDS = ("bfloat16", "float16")


class Rounding(IntFlag):
    """How a value can differ between two right programs.

    EXACT: not at all. NEAR: by a rounding error, or by the step to the next integer that such an
    error causes. CHOSEN: by any amount, as a rounding error decided between two values.
    """

    EXACT = 0
    NEAR = 1
    CHOSEN = 2


class RoundingErrors:
    """Finds how the tensors of a program can differ between two right programs."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores
        self._tensors: dict[Any, Rounding] = {}
        self._values: dict[Any, Rounding] = {}
        settled = False
        while not settled:
            before = dict(self._tensors)
            for store in stores.stores:
                self._tensors[store.buffer] = self.of_tensor(store.buffer) | self._of_store(store)
            settled = before == self._tensors

    def of_tensor(self, buffer: Any) -> Rounding:
        """Return how the elements of a tensor can differ."""
        return self._tensors.get(buffer, Rounding.EXACT)

    def _of_store(self, store: Store) -> Rounding:
        if store.read:
            inexact = any(self.of_tensor(it) or is_floating(it) for it in store.read)
            return Rounding.NEAR if inexact else Rounding.EXACT
        found = self.of(store.value)
        if any(self.of(it) for it in (*store.indices, *store.conditions)):
            found |= Rounding.NEAR if self._counts(store) else Rounding.CHOSEN
        return found

    def _counts(self, store: Store) -> bool:
        """Whether a store adds one to an element or takes one away, or stores a truth value."""
        value = self._stores.resolved(store.value)
        if dtype_of(value) == "bool":
            return True
        parts = (value.a, value.b) if isinstance(value, tirx.Add | tirx.Sub) else ()
        kept = [part for part in parts if self._stores.is_element(part, store.buffer)]
        ones = [part for part in parts if isinstance(part, tirx.IntImm) and abs(part.value) == 1]
        return len(kept) == len(ones) == 1

    def of(self, value: Any) -> Rounding:
        """Return how the value of an expression can differ."""
        if isinstance(value, tirx.Var):
            bound = self._stores.bound.get(value)
            return self._values.get(value, Rounding.EXACT) if bound is None else self.of(bound)
        if isinstance(value, TensorLoad):
            chosen = Rounding.CHOSEN if any(map(self.of, value.indices)) else Rounding.EXACT
            return self.of_tensor(self._stores.tensor(value.source)) | chosen
        if isinstance(value, BINARY_AND_BITS):
            own = is_floating(value) and not isinstance(value, _EXACT_BINARY)
            return self._all(value.a, value.b) | (Rounding.NEAR if own else Rounding.EXACT)
        if isinstance(value, tirx.Cast):
            return self.of(value.value) | (Rounding.NEAR if _rounds(value) else Rounding.EXACT)
        if isinstance(value, tirx.Not | tirx.BitwiseNot):
            return self.of(value.a)
        choice = choice_of(value)
        if choice is not None:
            return self._choice(*choice)
        if isinstance(value, tirx.Let):
            self._values[value.var] = self.of(value.value)
            return self.of(value.body)
        if isinstance(value, Call):
            inexact = is_floating(value) or any(map(is_floating, value.args))
            own = inexact and called(value) not in _EXACT_CALLS
            return self._all(*value.args) | (Rounding.NEAR if own else Rounding.EXACT)
        known = not is_floating(value) or isinstance(value, tirx.FloatImm)
        return Rounding.EXACT if known else Rounding.NEAR

    def _all(self, *values: Any) -> Rounding:
        found = Rounding.EXACT
        for value in values:
            found |= self.of(value)
        return found

    def _choice(self, condition: Any, yes: Any, no: Any) -> Rounding:
        found = self._all(yes, no)
        if self.of(condition):
            found |= Rounding.NEAR if is_floating(yes) or _one_step(yes, no) else Rounding.CHOSEN
        return found


def _rounds(cast: Any) -> bool:
    """Whether a cast may round.

    Code generators may leave out one to a shorter type that another cast undoes, and may round
    twice on the way from an integer.
    """
    if not is_floating(cast):
        return False
    dtype, before = dtype_of(cast), dtype_of(cast.value)
    held = _WHOLE_BITS.get(dtype, 0)
    if is_floating(cast.value):
        # bfloat16 has larger numbers than float16, and smaller ones.
        return not 0 < _WHOLE_BITS.get(before, 0) <= held or (before, dtype) == _NEITHER_HOLDS
    bits = 1 if before == "bool" else element_bits(before) if is_integer(cast.value) else 64
    return bits > held


def _one_step(yes: Any, no: Any) -> bool:
    """Whether two values are truth values, or integers next to each other."""
    if dtype_of(yes) == "bool":
        return True
    both = isinstance(yes, tirx.IntImm) and isinstance(no, tirx.IntImm)
    return both and abs(int(yes.value) - int(no.value)) <= 1


@dataclass(frozen=True)
class Flow:
    """What flows into one tensor.

    Attributes
    ----------
    reduction_length: upper bound on the number of terms summed into one element, at least 1.
    stored: floating-point types of the tensors that are stored on the way, itself included, and of
        the numbers whose bits are read there.
    rounding: how two right programs may differ.
    """

    reduction_length: int
    stored: frozenset[str]
    rounding: Rounding


class Flows:
    """What flows into each tensor of a program.

    Attributes
    ----------
    stores: of the program.
    errors: which tensors depend on rounding.
    written: tensors that the program writes.
    """

    def __init__(self, func: PrimFunc) -> None:
        self.stores = Stores(func)
        self.errors = RoundingErrors(self.stores)
        self.written = {store.buffer for store in self.stores.stores}

    def into(self, buffer: Any, without: Any = None) -> Flow:
        """Return what flows into one tensor.

        The reduction length is the sum, over the blocks on the way, of the product of a block's
        reduction extents: the errors of blocks that feed each other at most add up. ``without`` is
        a block that only chooses among its terms.
        """
        way = self.stores.behind(buffer) & self.written
        blocks = {
            block: terms_of(block)
            for tensor in way
            for store in self.stores.of(tensor)
            for block in store.blocks
            if without is None or not block.same_as(without)
        }
        return Flow(
            max(sum(blocks.values()), 1),
            frozenset(dtype_of(tensor) for tensor in way if is_floating(tensor))
            | frozenset(self._reinterpreted(way)),
            self.errors.of_tensor(buffer),
        )

    def _reinterpreted(self, tensors: set[Any]) -> Iterator[str]:
        """Yield the floating-point types of numbers whose bits become elements of tensors."""
        for store in (store for tensor in tensors for store in self.stores.of(tensor)):
            for call in found_in(self.stores.resolved(store.value), Call):
                if called(call) == REINTERPRET:
                    yield from (dtype_of(part) for part in call.args if is_floating(part))


def terms_of(block: Any) -> int:
    """Return how many terms a block adds up for one element; 0 if it does not reduce."""
    extents = [int(axis.dom.extent) for axis in block.iter_vars if is_reduced(axis)]
    return math.prod(extents) if extents else 0


# -- The stores of a program, and what decides each -----------------------------------------------


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


class Stores(BufferDefinitions):
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
        for nest in nests_of(func):
            for stmt, place in table_of(nest):
                self._note_statement(stmt, place)

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

    def _note_statement(self, stmt: Any, place: Place) -> None:
        if isinstance(stmt, tirx.For):
            self.lengths += decided_by(stmt)
        elif isinstance(stmt, tirx.While):
            self.lengths.append(stmt.condition)
        elif isinstance(stmt, SBlockRealize):
            self.note(stmt.block)
        elif isinstance(stmt, tirx.BufferStore):
            self._add(stmt.buffer, stmt.value, place, indices=tuple(stmt.indices))
        elif isinstance(stmt, tirx.Bind):
            self.bound[stmt.var] = stmt.value
        elif isinstance(stmt, tirx.Evaluate) and place.blocks:
            # A call may read what its block reads, and write what it writes.
            mentioned = frozenset(map(self.tensor, _buffers(stmt.value)))
            block = place.blocks[-1]
            read = mentioned | {self.tensor(region.source) for region in block.reads}
            for region in block.writes:
                self._add(region.source, stmt.value, place, read=read)

    def _add(
        self,
        buffer: Any,
        value: Any,
        place: Place,
        *,
        indices: tuple[Any, ...] = (),
        read: frozenset[Any] = frozenset(),
    ) -> None:
        tensor = self.tensor(buffer)
        self.stores.append(Store(tensor, indices, value, place.deciding, place.blocks, read))


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
