"""Functions that compute the same of tensors with more or fewer axes of extent 1: one for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.ir import IRModule

from schedlang.tvm.relax.program import shape_of, tir_call
from schedlang.tvm.relax.rewriting import named_weights, with_changed_calls


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
    return with_changed_calls(mod, _Calls(mod, named_weights(mod, parameters), twins))


class _Calls:
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
