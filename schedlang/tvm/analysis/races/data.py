"""What a program reads from its inputs, and what it executes whatever they are.

Nothing keeps two values that are read from being equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from tvm import tirx
from tvm.ir import TensorLoad
from tvm.s_tir import SBlock
from tvm_ffi import WalkResult, structural_equal, structural_walk

from schedlang.tvm.values import constant, extent_of, found_outside_loads, holds


class InputData:
    """The buffers whose elements come from a program's inputs and depend on nothing else.

    Those are inputs that it never writes, and intermediate results that it computes from their
    elements alone. A permutation that it counts out itself is none: its elements differ.

    Parameters
    ----------
    func: the program.
    """

    def __init__(self, func: Any) -> None:
        self._arguments = set(func.params)
        self._stores: dict[Any, list[Any]] = {}
        self._indices: list[Any] = []
        self._bound: dict[Any, Any] = {}

    def callbacks(self) -> list[tuple[Any, Callable[[Any], None]]]:
        """Return what has to be called with parts of the program, before any question is asked."""

        def note_store(store: Any) -> None:
            self._stores.setdefault(store.buffer, []).append(store.value)
            self._indices.extend(store.indices)

        def note_binding(binding: Any) -> None:
            self._bound[binding.var] = binding.value

        def note_views(block: Any) -> None:
            for match in block.match_buffers:  # what is stored through it is not looked at
                self._stores.setdefault(match.source.source, []).append(match.buffer)

        return [(tirx.BufferStore, note_store), (tirx.Bind, note_binding), (SBlock, note_views)]

    @cached_property
    def places(self) -> bool:
        """Whether the program stores elements at indices that it reads from its inputs."""
        return any(map(self.reads, self._indices))

    @cached_property
    def _buffers(self) -> set[Any]:
        stores = self._stores
        found = {buffer for buffer in self._arguments if buffer not in stores}
        left = {buffer: vals for buffer, vals in stores.items() if buffer not in self._arguments}
        while more := {
            buffer
            for buffer, values in left.items()
            if all(self._determines(value, found) for value in values)
        }:
            found |= more
            left = {buffer: values for buffer, values in left.items() if buffer not in more}
        return found

    def reads(self, expr: Any) -> bool:
        """Whether an expression reads inputs, itself or by the variables that it has."""
        loads = _loads(expr, self._bound)
        return bool(loads) and any(load.source in self._buffers for load in loads)

    def determines(self, expr: Any) -> bool:
        """Whether an expression reads inputs, and its value depends on what they hold only."""
        return self._determines(expr, self._buffers)

    def varies(self, expr: Any, indices: list[Any], varying: list[Any]) -> bool:
        """Whether iterations in which ``indices`` are equal have different values of ``expr``.

        ``varying`` are the variables that differ from one iteration to the next. Where the data
        that they read could make the values equal, they are taken as different.
        """
        found: list[Any] = []

        def look(node: Any) -> Any:
            if any(structural_equal(node, index) for index in indices):
                return WalkResult.SKIP
            if isinstance(node, tirx.Var) and holds(varying, node):
                found.append(node)
            return None

        structural_walk(expr, (Any, look), order="pre")
        return bool(found)

    def leaves_open(self, condition: Any, varying: list[Any]) -> bool:
        """Whether a condition asks about inputs only, so that it may hold in any two iterations.

        Not where it compares them with a variable that differs between iterations.
        """
        loads = _loads(condition, self._bound)
        known = bool(loads) and all(load.source in self._buffers for load in loads)
        # Variables in what it reads are no comparison.
        used = found_outside_loads(condition, tirx.Var)
        return known and not any(holds(used, variable) for variable in varying)

    def _determines(self, expr: Any, buffers: set[Any]) -> bool:
        """Whether an expression reads some of the buffers, and depends on nothing else."""
        reads = others = False

        def note_load(load: Any) -> Any:
            nonlocal reads, others
            if load.source in buffers:
                reads = True
            else:
                others = True
            return WalkResult.SKIP

        def note_variable(variable: Any) -> None:
            nonlocal reads, others
            value = self._bound.get(variable)
            if value is not None and self._determines(value, buffers):
                reads = True
            else:
                others = True

        structural_walk(expr, ((TensorLoad, note_load), (tirx.Var, note_variable)), order="pre")
        return reads and not others


def _loads(expr: Any, bound: Mapping[Any, Any]) -> list[Any]:
    """Return the loads in an expression, and in what its variables are bound to."""
    found: list[Any] = []

    def note_variable(variable: Any) -> None:
        if variable in bound:
            found.extend(_loads(bound[variable], bound))

    def note_load(load: Any) -> Any:
        found.append(load)
        return WalkResult.SKIP

    if not isinstance(expr, tirx.IntImm):
        structural_walk(expr, ((TensorLoad, note_load), (tirx.Var, note_variable)), order="pre")
    return found


def runs(loop: Any) -> bool:
    """Whether a loop has an iteration, whatever the data are."""
    return extent_of(loop.extent) > 0


def is_true(predicate: Any) -> bool:
    """Whether the predicate of a block is the constant True."""
    return bool(constant(predicate))
