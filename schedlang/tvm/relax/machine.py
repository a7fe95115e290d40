"""Networks compiled by Relax, run by its virtual machine on the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import relax
from tvm.ir import IRModule
from tvm.target import Target

from schedlang.tvm.relax.program import MAIN


class Machine:
    """A compiled network with its weights: a function from arrays to arrays."""

    def __init__(self, mod: IRModule, parameters: Mapping[str, np.ndarray], target: Target) -> None:
        """Compile a module as ``lower`` returns it, or with scheduled functions in place."""
        executable = relax.build(mod, target, relax_pipeline=relax.get_pipeline("default_build"))
        self._device = tvm.cpu()
        self._machine = relax.VirtualMachine(executable, self._device)
        self._weights = [self._tensor(value) for value in parameters.values()]

    @classmethod
    def of_operators(cls, mod: IRModule, parameters: Mapping[str, np.ndarray]) -> Machine:
        """Compile a module of Relax operators as TVM does by default."""
        return cls(relax.get_pipeline("zero")(mod), parameters, Target("llvm"))

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the outputs as arrays of their own, in the order of ``main``'s tuple."""
        results = self._machine[MAIN](*[self._tensor(value) for value in inputs], *self._weights)
        if isinstance(results, tvm.runtime.Tensor):
            results = [results]
        return [np.array(result.numpy()) for result in results]

    def _tensor(self, value: np.ndarray) -> Any:
        return tvm.runtime.tensor(np.ascontiguousarray(value).reshape(value.shape), self._device)
