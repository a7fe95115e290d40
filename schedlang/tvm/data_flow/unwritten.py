"""Results that a program certainly computes from intermediate tensors that nobody initialised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlockRealize
from tvm.tirx import PrimFunc

from schedlang.tvm.parts import Regions, nests_of, parts_of
from schedlang.tvm.program import allocated_buffers
from schedlang.tvm.values import constant, found_in, is_floating, loads_of

_UNDERSTOOD = (
    tirx.SeqStmt, tirx.For, tirx.While, tirx.IfThenElse, tirx.AttrStmt, tirx.BufferStore,
    tirx.Evaluate, tirx.Bind, SBlockRealize,
)  # fmt: skip


@dataclass(frozen=True)
class _Stored:
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
    return _Search(func, set(intermediate)).results() if intermediate else []


class _Search:
    def __init__(self, func: PrimFunc, intermediate: set[Any]) -> None:
        self._parameters = set(func.params)
        self._garbage = intermediate
        self._regions = Regions()
        self._stored: list[_Stored] = []
        self._found: dict[Any, list[tuple[str, str, str] | None]] = {}
        self._understood = True
        self._nests = nests_of(func)

    def results(self) -> list[tuple[str, str, str]]:
        for nest in self._nests:
            before = len(self._stored)
            self._collect(nest, "root", always=True)
            if not self._understood:
                return []
            self._remove_initialised()
            for store in self._stored[before:]:
                if store.tensor in self._parameters:
                    self._found.setdefault(store.tensor, []).append(self._result(store))
        return [found[0] for found in self._found.values() if found[0] and all(found)]

    def _collect(self, stmt: Any, block: str, *, always: bool) -> None:
        if not isinstance(stmt, _UNDERSTOOD):
            self._understood = False
        elif isinstance(stmt, tirx.BufferStore):
            tensor = self._regions.tensor(stmt.buffer)
            self._stored.append(_Stored(block, tensor, stmt.value, always))
        elif isinstance(stmt, tirx.Evaluate):
            self._called(stmt.value)
        elif isinstance(stmt, SBlockRealize):
            self._regions.note(stmt.block)
            block = str(stmt.block.name_hint)
            always = always and constant(stmt.predicate) == 1
        elif isinstance(stmt, tirx.For):
            always = always and (constant(stmt.extent) or 0) > 0
        elif isinstance(stmt, tirx.IfThenElse | tirx.While):
            always = False
        for part in parts_of(stmt):
            self._collect(part, block, always=always)

    def _called(self, call: Any) -> None:
        """Note that a call may have written what it mentions; one of others, anything."""
        mentioned = [it for it in found_in(call, tirx.Var) if isinstance(it.ty, tirx.BufferType)]
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

    def _result(self, store: _Stored) -> tuple[str, str, str] | None:
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
