"""What a program does with its parameters: whether it reads, writes or initialises them.

A program that updates what nobody initialised is refused, be it an output or an intermediate
tensor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.sym import Analyzer
from tvm.tirx import PrimFunc
from tvm_ffi import structural_equal

from schedlang.tvm.analysis.first_writes import is_read_first, is_written_first
from schedlang.tvm.program import allocated_buffers, block_realizes, stated_outputs
from schedlang.tvm.statements import Place, Regions, nests_of, statements_in, table_of
from schedlang.tvm.values import constant, found_in, is_floating, loads_of


def parameter_roles(func: PrimFunc) -> tuple[str, ...]:
    """Return ``"input"``, ``"output"`` or ``"inout"`` for each parameter.

    A written parameter is an ``"inout"`` if the program may read the caller's value: unless each
    element that it reads was provably written before, or the function states it to be an output.
    A reduction that reads its own accumulator does not count as a read.
    """
    stated = {func.params[place] for place in stated_outputs(func)}
    read, written = _accessed(func)
    fixed = frozenset(var for var in func.params if var not in written)

    def role(var: Any) -> str:
        if var not in written:
            return "input"
        output = var in stated or var not in read or is_written_first(func, var, fixed)
        return "output" if output else "inout"

    return tuple(map(role, func.params))


def refused_outputs(func: PrimFunc) -> Iterator[tuple[str, str]]:
    """Yield the name of each parameter that is wrongly stated to be an output, and what it is."""
    _, written = _accessed(func)
    fixed = frozenset(var for var in func.params if var not in written)
    for place in stated_outputs(func):
        var = func.params[place]
        if var not in written:
            yield str(var.name), "never written"
        elif is_read_first(func, var, fixed):
            yield str(var.name), "read before anything is written to it"


def _accessed(func: PrimFunc) -> tuple[set[Any], set[Any]]:
    """Return the buffers that blocks say that they read, and those that they write."""
    regions = Regions()
    read, written = set(), set()
    realizes = block_realizes(func)
    for outer in realizes:
        regions.note(outer.block)
    initialised = _initialised_by_outer_blocks(func)
    for node in realizes:
        block = node.block
        if _has_inner_block(node):
            continue
        writes = {regions.tensor(region.source) for region in block.writes}
        reads = {regions.tensor(region.source) for region in block.reads}
        read |= reads - initialised - (writes if block.init is not None else set())
        written |= writes
    return read, written


def uninitialised_updates(func: PrimFunc) -> list[tuple[str, str]]:
    """Return block and tensor of each update that reads what the block's init does not store.

    An init covers a tensor if it stores to it whatever holds, and, where neither loops nor other
    definitions decide the place, an element that the update reads. Calls may write anything that
    they mention.
    """
    regions, found = Regions(), []
    for node in block_realizes(func):
        block = node.block
        regions.note(block)
        if block.init is None:
            continue
        covered = _stored_always(block.init, regions, once=not _defines_more(block.body))
        loads = found_in(block.body, TensorLoad)
        for written in dict.fromkeys(regions.tensor(region.source) for region in block.writes):
            read = [it.indices for it in loads if regions.tensor(it.source).same_as(written)]
            stored = covered.get(written, [])
            if read and not any(
                place is None or any(_same_place(block, place, it) for it in read)
                for place in stored
            ):
                found.append((str(block.name_hint), str(written.name)))
    return found


def _defines_more(body: Any) -> bool:
    """Whether a block's body has other variables than the block: of inner blocks, or bound."""
    return any(isinstance(part, SBlockRealize | tirx.Bind) for part in statements_in(body))


def _same_place(block: Any, one: Any, other: Any) -> bool:
    if structural_equal(list(one), list(other)):
        return True  # the usual case, without a proof
    analyzer = Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    return len(one) == len(other) and all(map(analyzer.can_prove_equal, one, other))


def _stored_always(stmt: Any, regions: Regions, *, once: bool) -> dict[Any, list[Any]]:
    """Return where a statement stores whatever holds; None for a place that loops decide."""
    found: dict[Any, list[Any]] = {}
    for inner, place in table_of(stmt):
        if any(isinstance(one, tirx.IfThenElse | tirx.While) for one in place.around):
            continue
        if isinstance(inner, tirx.BufferStore):
            at = inner.indices if once and not place.around else None
            found.setdefault(regions.tensor(inner.buffer), []).append(at)
        elif isinstance(inner, tirx.Evaluate):
            for buffer in _buffers_in(inner.value):
                found.setdefault(regions.tensor(buffer), []).append(None)
    return found


def _buffers_in(expression: Any) -> list[Any]:
    return [it for it in found_in(expression, tirx.Var) if isinstance(it.ty, tirx.BufferType)]


def _has_inner_block(node: SBlockRealize) -> bool:
    return any(isinstance(inner, SBlockRealize) for inner in statements_in(node.block.body))


def _initialised_by_outer_blocks(func: PrimFunc) -> set[Any]:
    """Return the buffers that a blockized reduction initialises outside its innermost block."""
    return {
        region.source
        for node in block_realizes(func)
        if node.block.init is not None and _has_inner_block(node)
        for region in node.block.writes
    }


# -- Results computed from intermediate tensors that nobody initialised ---------------------------

_UNDERSTOOD = (
    tirx.SeqStmt, tirx.For, tirx.While, tirx.IfThenElse, tirx.AttrStmt, tirx.BufferStore,
    tirx.Evaluate, tirx.Bind, SBlockRealize,
)  # fmt: skip


@dataclass(frozen=True)
class _StoredElements:
    """A store: its block, tensor and value, and whether it surely happens."""

    block: str
    tensor: Any
    value: Any
    always: bool


def uninitialised_results(func: PrimFunc) -> list[tuple[str, str, str]]:
    """Return block, argument and intermediate tensor where an argument holds garbage only.

    An intermediate tensor is garbage as long as each store to it, so far, adds to garbage: an
    accumulator without an initial value is, and a tensor that nobody has written yet. An argument
    is named if all stores to it happen in every call, and all are of garbage. Values that an
    operator might discard do not count as garbage, nor does what calls may have written.
    """
    intermediate = allocated_buffers(func)
    return _UnwrittenSearch(func, set(intermediate)).results() if intermediate else []


def _always_enters(stmt: Any) -> bool:
    """Return whether what is inside a statement runs at least once, whatever the data are."""
    if isinstance(stmt, tirx.For):
        return (constant(stmt.extent) or 0) > 0
    return isinstance(stmt, SBlockRealize) and constant(stmt.predicate) == 1


class _UnwrittenSearch:
    def __init__(self, func: PrimFunc, intermediate: set[Any]) -> None:
        self._parameters = set(func.params)
        self._garbage = intermediate
        self._regions = Regions()
        self._stored: list[_StoredElements] = []
        self._found: dict[Any, list[tuple[str, str, str] | None]] = {}
        self._understood = True
        self._nests = nests_of(func)

    def results(self) -> list[tuple[str, str, str]]:
        for nest in self._nests:
            before = len(self._stored)
            for stmt, place in table_of(nest):
                self._collect(stmt, place)
            if not self._understood:
                return []
            self._remove_initialised()
            for store in self._stored[before:]:
                if store.tensor in self._parameters:
                    self._found.setdefault(store.tensor, []).append(self._result(store))
        return [found[0] for found in self._found.values() if found[0] and all(found)]

    def _collect(self, stmt: Any, place: Place) -> None:
        if not isinstance(stmt, _UNDERSTOOD):
            self._understood = False
        elif isinstance(stmt, tirx.BufferStore):
            block = str(place.blocks[-1].name_hint) if place.blocks else "root"
            always = all(map(_always_enters, place.around))
            tensor = self._regions.tensor(stmt.buffer)
            self._stored.append(_StoredElements(block, tensor, stmt.value, always))
        elif isinstance(stmt, tirx.Evaluate):
            self._called(stmt.value)
        elif isinstance(stmt, SBlockRealize):
            self._regions.note(stmt.block)

    def _called(self, call: Any) -> None:
        """Note that a call may have written what it mentions; one of others, anything."""
        mentioned = _buffers_in(call)
        if not mentioned and constant(call) is None:
            self._understood = False
        for tensor in map(self._regions.tensor, mentioned):
            self._garbage.discard(tensor)
            if tensor in self._parameters:
                self._found.setdefault(tensor, []).append(None)

    def _remove_initialised(self) -> None:
        """Leave the tensors to which all stores so far are of garbage."""
        left = -1
        while left != len(self._garbage):
            left = len(self._garbage)
            for store in self._stored:
                if store.tensor in self._garbage and self._spoils(store.value) is None:
                    self._garbage.discard(store.tensor)

    def _result(self, store: _StoredElements) -> tuple[str, str, str] | None:
        source = self._spoils(store.value) if store.always else None
        return None if source is None else (store.block, str(store.tensor.name), str(source.name))

    def _spoils(self, value: Any) -> Any:
        """Return the tensor whose garbage makes a value garbage; None where none surely does."""
        loaded = [it for it in loads_of(value) if self._regions.tensor(it.source) in self._garbage]
        if len(loaded) != 1 or not self._keeps(value, loaded[0]):
            return None
        return self._regions.tensor(loaded[0].source)

    def _keeps(self, value: Any, load: Any) -> bool:
        """Return whether a value differs where the loaded element does."""
        if isinstance(value, TensorLoad):
            return bool(value.same_as(load))
        if isinstance(value, tirx.Cast):
            return self._keeps(value.value, load)
        if isinstance(value, tirx.Add | tirx.Sub):
            return self._keeps(value.a, load) or self._keeps(value.b, load)
        if isinstance(value, tirx.Mul) and is_floating(value):
            sides = ((value.a, value.b), (value.b, value.a))
            return any(self._keeps(one, load) and bool(loads_of(other)) for one, other in sides)
        return False
