"""Calls of other functions in place of a network's own: with weights packed ahead, or of twins.

What depends on weights only is computed when a network is compiled. Functions that compute the same
of tensors with more or fewer axes of extent 1 are one for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GlobalVar, IRModule

from schedlang.tvm import program
from schedlang.tvm.codegen.generator import compile_for_host
from schedlang.tvm.codegen.runtime import aligned_array
from schedlang.tvm.packing import SplitFunction
from schedlang.tvm.relax.program import shape_of, tir_call, with_arguments
from schedlang.tvm.relax.rewriting import (
    named_weights,
    with_changed_calls,
    with_opaque_functions,
)


def with_packed_weights(
    mod: IRModule, parameters: Mapping[str, np.ndarray], split: Mapping[str, SplitFunction]
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return a network whose calls of these functions take packed weights, and its parameters.

    ``split`` has the parts of functions by name. Each call gets the weights that it had, packed;
    parameters that nothing reads any more are dropped.
    """
    if not split:
        return mod, dict(parameters)
    mod, callees = with_opaque_functions(mod, {name: one.main for name, one in split.items()})
    return with_changed_calls(mod, _PackedCalls(named_weights(mod, parameters), split, callees))


class _PackedCalls:
    """The weights of a network, name and value by variable, with those that were packed."""

    def __init__(
        self,
        values: dict[Any, tuple[str, np.ndarray]],
        split: Mapping[str, SplitFunction],
        callees: Mapping[str, GlobalVar],
    ) -> None:
        self.values = values
        self._split = split
        self._callees = callees
        self._code: dict[tuple[str, int], Any] = {}
        self._made: dict[Any, Any] = {}

    def changed(self, value: Any) -> Any:
        """Return a value of a binding; of a call of a split function, one with packed weights."""
        name, arguments = tir_call(value) or ("", [])
        if name not in self._split:
            return value
        split = self._split[name]
        taken = [
            arguments[source] if source < split.count else self._packed(name, source, arguments)
            for source in split.sources
            if not len(arguments) <= source < split.count  # it is written
        ]
        return with_arguments(value, [self._callees[name], relax.Tuple(taken)])

    def _packed(self, name: str, source: int, arguments: list[Any]) -> Any:
        """The variable of a packed weight, computed once for the same weights."""
        place = source - self._split[name].count
        packing = self._split[name].packings[place]
        weights = [arguments[position] for position in packing.weights]
        key = (name, place, *weights)
        if key not in self._made:
            if (name, place) not in self._code:
                self._code[name, place] = compile_for_host(program.as_main(packing.function))
            array = aligned_array(packing.shape, packing.dtype)
            self._code[name, place](*(self.values[var][1] for var in weights), array)
            first = self.values[weights[0]][0]
            var = relax.Var("packed", relax.TensorType(packing.shape, packing.dtype))
            self.values[var] = (f"{first} (packed for {name}, {place})", array)
            self._made[key] = var
        return self._made[key]


@dataclass(frozen=True)
class Twin:
    """A function that can be called in place of another one.

    Attributes
    ----------
    name: of this function.
    order: for each parameter of the other one its position among this one's; the last one of both
        is the output, and the only one.
    shapes: of this function's parameters.
    """

    name: str
    order: Sequence[int]
    shapes: Sequence[tuple[int, ...]]


def with_twins(
    mod: IRModule, parameters: Mapping[str, np.ndarray], twins: Mapping[str, Twin]
) -> tuple[IRModule, dict[str, np.ndarray]]:
    """Return a network that calls twins in place of these functions, and its parameters.

    Tensors are reshaped before and after, which costs nothing when the network is compiled.
    """
    if not twins:
        return mod, dict(parameters)
    return with_changed_calls(mod, _TwinCalls(mod, named_weights(mod, parameters), twins))


class _TwinCalls:
    """The calls of a network that are changed; see ``CallChange``."""

    def __init__(
        self,
        mod: IRModule,
        values: dict[Any, tuple[str, np.ndarray]],
        twins: Mapping[str, Twin],
    ) -> None:
        self.values = values
        self._mod = mod
        self._twins = twins
        self._made: dict[Any, Any] = {}

    def changed(self, value: Any) -> Any:
        name, arguments = tir_call(value) or ("", [])
        if name not in self._twins:
            return value
        twin = self._twins[name]
        taken: dict[int, Any] = {
            place: self._shaped(argument, twin.shapes[place])
            for argument, place in zip(arguments, twin.order[:-1], strict=True)
        }
        wanted = value.ty_args[0]
        output = relax.TensorType(twin.shapes[-1], wanted.dtype)
        callee = self._mod.get_global_var(twin.name)
        call = relax.call_tir(callee, [taken[place] for place in sorted(taken)], output)
        shape = tuple(int(extent) for extent in wanted.shape)
        return call if shape == tuple(twin.shapes[-1]) else relax.op.reshape(call, shape)

    def _shaped(self, argument: Any, shape: tuple[int, ...]) -> Any:
        if shape_of(argument) == tuple(shape):
            return argument
        if argument not in self.values:
            return relax.op.reshape(argument, shape)
        key = (argument, tuple(shape))
        if key not in self._made:
            name, array = self.values[argument]
            var = relax.Var("reshaped", relax.TensorType(shape, str(array.dtype)))
            self.values[var] = (f"{name} {list(shape)}", array.reshape(shape))
            self._made[key] = var
        return self._made[key]
