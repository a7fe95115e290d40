"""Weights packed ahead: what depends on weights only is computed when a network is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import GlobalVar, IRModule

from schedlang.tvm import program
from schedlang.tvm.codegen.host import compile_for_host
from schedlang.tvm.codegen.runtime import aligned_array
from schedlang.tvm.packing import SplitFunction
from schedlang.tvm.relax.program import tir_call, with_arguments
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
    return with_changed_calls(mod, _Packer(named_weights(mod, parameters), split, callees))


class _Packer:
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
